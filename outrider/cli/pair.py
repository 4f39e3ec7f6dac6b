"""A model pair and its coordinator on this machine, from the options of `outrider up`."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from outrider.cli.deployment import Deployment, ServicePlan
from outrider.cli.flags import flag_name
from outrider.cli.speculation_options import DraftLengthChoice
from outrider.rpc.tls import TlsFiles
from outrider.settings import (
    CoordinatorSettings,
    DraftSettings,
    ServiceSettings,
    SettingsError,
    SpeculationChoice,
    TargetSettings,
    load_settings,
)

LOOPBACK = "127.0.0.1"
DRAFT_OFFSET, TARGET_OFFSET = 11, 21
"""Distances of the workers' ports from the coordinator's."""
LARGEST_PORT = 65535 - TARGET_OFFSET

EMBEDDED = "embedded"
THREADS_NAME = "OUTRIDER_THREADS"

Flags = Mapping[str, str]
SettingsT = TypeVar("SettingsT", bound=ServiceSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """What runs and where. None: the services' own default, or what the environment says."""

    target_model: str = EMBEDDED
    draft_model: str | None = EMBEDDED
    """None: no draft service."""
    dtype: str | None = None
    device: str | None = None
    threads: int | None = None
    speculation: SpeculationChoice | None = None
    draft_length: DraftLengthChoice | None = None
    draft_ahead: bool | None = None
    draft_branches: int | None = None
    port: int = 0
    """The coordinator's port; the workers' lie above it. 0: free ports."""
    pinned_cores: Sequence[int] = field(default_factory=tuple)
    """The last one is for draft and coordinator, the others for the target. Empty: not pinned."""


@dataclass(frozen=True, slots=True)
class RunningPair:
    """Where the services listen."""

    coordinator: str
    target: str
    draft: str | None
    tls: TlsFiles
    """What a client of the coordinator needs: files of the environment's TLS settings, if any."""


def _as_it_is(address: str) -> str:
    return address


def start_pair(
    deployment: Deployment,
    options: PairOptions,
    *,
    draft_route: Callable[[str], str] = _as_it_is,
) -> RunningPair:
    """Starts the workers side by side and then, knowing where they listen, the coordinator.

    `draft_route` says at which address the coordinator reaches the draft that listens at another.
    Raises SettingsError before anything is started, else as Deployment.start.
    """
    settings = check_settings(options)
    workers = [_plan("target", _target_flags(options), options.pinned_cores[:-1])]
    if options.draft_model is not None:
        flags = _draft_flags(options, options.draft_model)
        workers.append(_plan("draft", flags, options.pinned_cores[-1:]))
    addresses = deployment.start(workers)
    target, draft = addresses["target"], addresses.get("draft")
    reached_at = draft_route(draft) if draft is not None else ""
    flags = _coordinator_flags(options, target=target, draft=reached_at)
    coordinator = _plan("coordinator", flags, options.pinned_cores[-1:])
    address = deployment.start([coordinator])["coordinator"]
    tls = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
    return RunningPair(address, target, draft, tls)


def check_settings(options: PairOptions) -> CoordinatorSettings:
    """The coordinator's settings, apart from the workers' addresses, once all services' are right.

    Raises SettingsError naming all faults at once.
    """
    faults: dict[str, None] = {}

    def load(kind: type[SettingsT], flags: Flags) -> SettingsT | None:
        try:
            return load_settings(kind, flags)
        except SettingsError as error:
            faults.update(dict.fromkeys(error.faults))
            return None

    load(TargetSettings, _target_flags(options))
    if options.draft_model is not None:
        load(DraftSettings, _draft_flags(options, options.draft_model))
    coordinator = load(CoordinatorSettings, _coordinator_flags(options, target="", draft=""))
    if coordinator is None or faults:
        raise SettingsError(list(faults))
    return coordinator


def busy_ports(port: int) -> list[int]:
    """Those of the pair's ports that another process listens on; none when `port` is 0."""
    wanted = (port, port + DRAFT_OFFSET, port + TARGET_OFFSET) if port else ()
    return [one for one in wanted if not _is_free(one)]


def usable_cores() -> list[int]:
    """The cores that this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


def _target_flags(options: PairOptions) -> Flags:
    return _worker_flags(options, options.target_model, _listen(options.port, TARGET_OFFSET))


def _draft_flags(options: PairOptions, model: str) -> Flags:
    return _worker_flags(options, model, _listen(options.port, DRAFT_OFFSET))


def _worker_flags(options: PairOptions, model: str, listen: str) -> Flags:
    return _given(
        listen=listen,
        model=model,
        dtype=options.dtype,
        device=options.device,
        threads=_threads(options),
    )


def _coordinator_flags(options: PairOptions, *, target: str, draft: str) -> Flags:
    return _given(
        listen=_listen(options.port, 0),
        target_address=target or None,
        draft_address=draft,
        speculation=options.speculation,
        draft_length=options.draft_length,
        draft_ahead=options.draft_ahead,
        draft_branches=options.draft_branches,
    )


def _threads(options: PairOptions) -> int | None:
    """What was asked for, else by the environment, else an equal share of the cores: two models
    that each take all of them mostly wait for each other."""
    if options.threads is not None or THREADS_NAME in os.environ:
        return options.threads
    workers = 1 if options.draft_model is None else 2
    return max(1, len(usable_cores()) // workers)


def _given(**settings: Any) -> Flags:
    return {name: str(value) for name, value in settings.items() if value is not None}


def _listen(port: int, offset: int) -> str:
    return f"{LOOPBACK}:{port + offset if port else 0}"


def _word(field: str, value: str) -> str:
    """A flag as a command line has it; switches have no value but two names."""
    if value in ("True", "False"):
        return flag_name(field if value == "True" else f"no_{field}")
    return f"{flag_name(field)}={value}"


def _plan(name: str, flags: Flags, cores: Sequence[int]) -> ServicePlan:
    """A command that finds this installation whatever the current folder holds (-P)."""
    words = [_word(field, value) for field, value in flags.items()]
    return ServicePlan(
        name=name,
        command=[sys.executable, "-P", "-m", "outrider", "serve", "--end-with-input", name, *words],
        vital=name != "draft",
        cpus=frozenset(cores),
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
