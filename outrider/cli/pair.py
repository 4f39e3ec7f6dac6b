"""A model pair and its coordinator on this machine, from the options of `outrider up`."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from outrider.cli.deployment import Deployment, ServicePlan
from outrider.cli.flags import flag_name
from outrider.cli.speculation_options import DraftLengthChoice
from outrider.drafter import Drafter
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


@dataclass(frozen=True, slots=True)
class ComparedDraft:
    """One of several drafts of a target that are compared: its `label`, how it comes by its
    tokens, and its model."""

    label: str
    way: Drafter | None
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """What runs and where. None: the services' own default, or what the environment says."""

    target_model: str = EMBEDDED
    draft_model: str | None = EMBEDDED
    """None: no draft service."""
    drafter: Drafter | None = None
    """How the draft comes by its tokens."""
    copy_recent: int | None = None
    """Most tokens of recent outputs that other generations copy from."""
    drafters: Sequence[ComparedDraft] = field(default_factory=tuple)
    """Drafts in place of that one, each with a coordinator of its own; needs free ports."""
    dtype: str | None = None
    device: str | None = None
    threads: int | None = None
    speculation: SpeculationChoice | None = None
    draft_length: DraftLengthChoice | None = None
    draft_ahead: bool | None = None
    draft_branches: int | None = None
    copies: DraftLengthChoice | None = None
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
    drafters: Mapping[str, str] = field(default_factory=dict)
    """The coordinators of the drafts that are compared, by their labels; the first one of them is
    `coordinator`."""


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
    others = options.pinned_cores[-1:]
    drafts = {
        _named("draft", number): one for number, one in enumerate(_drafters(options), start=1)
    }
    workers = [_plan("target", _target_flags(options), options.pinned_cores[:-1])]
    for name, one in drafts.items():
        workers.append(_plan("draft", _draft_flags(options, one), others, name=name))
    addresses = deployment.start(workers)
    target = addresses["target"]
    routes = {name: draft_route(addresses[name]) for name in drafts} or {"draft": ""}
    labels = {name: drafts[name].label if name in drafts else "" for name in routes}
    coordinators = {
        name.replace("draft", "coordinator"): _coordinator_flags(
            options, target=target, draft=reached_at
        )
        for name, reached_at in routes.items()
    }
    started = deployment.start(
        [_plan("coordinator", flags, others, name=name) for name, flags in coordinators.items()]
    )
    found = dict(zip(labels.values(), (started[name] for name in coordinators), strict=True))
    tls = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
    return RunningPair(
        next(iter(found.values())),
        target,
        addresses.get(next(iter(drafts), "")),
        tls,
        found if options.drafters else {},
    )


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
    drafts = [load(DraftSettings, _draft_flags(options, one)) for one in _drafters(options)]
    coordinator = load(CoordinatorSettings, _coordinator_flags(options, target="", draft=""))
    if coordinator is not None:
        ways = [draft.drafter for draft in drafts if draft is not None]
        lengths = {"draft_length": coordinator.draft_length, "copies": coordinator.copies}
        faults.update(dict.fromkeys(nothing_to_propose(ways, **lengths)))
    if coordinator is None or faults:
        raise SettingsError(list(faults))
    return coordinator


def nothing_to_propose(
    ways: Iterable[Drafter | None], *, draft_length: int | None, copies: int | None
) -> list[str]:
    """What is wrong with drafts that have no model and may not copy. Where the draft length is
    chosen (None), copies are all that they propose."""
    if draft_length is not None or copies != 0:
        return []
    return [
        f"--copies 0 leaves a draft without a model (--drafter {way}) nothing to propose: give "
        "--draft-length a number, or let it copy"
        for way in ways
        if way is not None and not way.draws
    ]


def busy_ports(port: int) -> list[int]:
    """Those of the pair's ports that another process listens on; none when `port` is 0."""
    wanted = (port, port + DRAFT_OFFSET, port + TARGET_OFFSET) if port else ()
    return [one for one in wanted if not _is_free(one)]


def usable_cores() -> list[int]:
    """The cores that this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


def _target_flags(options: PairOptions) -> Flags:
    return _worker_flags(options, options.target_model, _listen(options.port, TARGET_OFFSET))


def _draft_flags(options: PairOptions, drafter: ComparedDraft) -> Flags:
    flags = _worker_flags(options, drafter.model, _listen(options.port, DRAFT_OFFSET))
    return {**flags, **_given(drafter=drafter.way, copy_recent=options.copy_recent)}


def _drafters(options: PairOptions) -> Sequence[ComparedDraft]:
    """All drafts of the target, if it has any."""
    if options.drafters or options.draft_model is None:
        return options.drafters
    return [ComparedDraft("", options.drafter, options.draft_model)]


def _named(service: str, number: int) -> str:
    return service if number == 1 else f"{service}-{number}"


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
        copies=options.copies,
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


def _plan(
    service: str, flags: Flags, cores: Sequence[int], *, name: str | None = None
) -> ServicePlan:
    """A command that finds this installation whatever the current folder holds (-P)."""
    words = [
        *("outrider", "serve", "--end-with-input", service),
        *(_word(field, value) for field, value in flags.items()),
    ]
    return ServicePlan(
        name=name or service,
        command=[sys.executable, "-P", "-m", *words],
        vital=service != "draft",
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
