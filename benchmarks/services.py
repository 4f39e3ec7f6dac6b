"""The services as processes of their own, placed on cores, for the length of a measurement."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.subject import Subject
from outrider.cli.deployment import Deployment, ServicePlan
from outrider.client import Client
from outrider.settings.environment import environment_name

PAIRING_TIMEOUT_S = 60.0
GRACE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Which cores the processes may use, and how many threads each model has.

    The draft and the coordinator share cores. The client (this process) shares the target's: it
    takes a chunk while the draft works, when the target has nothing to do.
    """

    target_cores: frozenset[int]
    other_cores: frozenset[int]
    threads: int

    @property
    def words(self) -> str:
        """For the note of a row."""
        if self.target_cores.isdisjoint(self.other_cores):
            return (
                f"target alone on {_count(self.target_cores)}, draft and coordinator on another, "
                f"{self.threads} thread each"
            )
        return f"not pinned, {self.threads} threads per model on {_count(self.target_cores)}"


def pinned() -> Placement:
    """The last core for draft and coordinator, the one before it for the target."""
    cores = sorted(os.sched_getaffinity(0))
    return Placement(
        target_cores=frozenset(cores[-2:-1]), other_cores=frozenset(cores[-1:]), threads=1
    )


def unpinned() -> Placement:
    """As `outrider up` does it: every process may use every core."""
    cores = frozenset(os.sched_getaffinity(0))
    return Placement(target_cores=cores, other_cores=cores, threads=len(cores))


def placement_of(subject: Subject) -> Placement:
    """A core each on a CPU. Beside a GPU half of the cores each: the device does the work."""
    if subject.device == "cpu":
        return pinned()
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    return Placement(
        target_cores=frozenset(cores[:half]),
        other_cores=frozenset(cores[half:]),
        threads=subject.threads,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What runs: the words after `python -m` of each service, without its addresses."""

    target: Sequence[str]
    draft: Sequence[str]
    coordinator: Sequence[str]


def embedded_programs(*, dtype: str, threads: int) -> Programs:
    """The three real services with the embedded pair. Prompts come again in every turn of a
    benchmark: their outputs are not copied from."""
    worker = [f"--dtype={dtype}", f"--threads={threads}", "--listen=127.0.0.1:0"]
    return Programs(
        target=["outrider", "serve", "--end-with-input", "target", *worker],
        draft=["outrider", "serve", "--end-with-input", "draft", *worker, "--copy-recent=0"],
        coordinator=["outrider", "serve", "--end-with-input", "coordinator"],
    )


@contextmanager
def running_services(programs: Programs, placement: Placement) -> Iterator[Client]:
    """A client of a coordinator whose draft is paired; all processes end with the block."""
    own_cores = os.sched_getaffinity(0)
    with (
        tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder,
        Deployment(Path(folder), Silent(), grace_s=GRACE_S) as deployment,
    ):
        workers = deployment.start(
            [
                service_plan("target", programs.target, placement.target_cores),
                service_plan("draft", programs.draft, placement.other_cores),
            ]
        )
        words = [
            *programs.coordinator,
            "--listen=127.0.0.1:0",
            f"--target-address={workers['target']}",
            f"--draft-address={workers['draft']}",
            # No round is to go without its draft because a neighbour took the core.
            "--draft-timeout-ms=10000",
        ]
        plan = service_plan("coordinator", words, placement.other_cores)
        address = deployment.start([plan])["coordinator"]
        os.sched_setaffinity(0, placement.target_cores)
        try:
            with Client(address) as client:
                wait_for_draft(client)
                yield client
        finally:
            os.sched_setaffinity(0, own_cores)


@dataclass(frozen=True, slots=True)
class TargetAlone:
    """A running target, and a coordinator that has no draft: where they listen."""

    target: str
    coordinator: str


@contextmanager
def running_targets(
    subject: Subject, variants: Mapping[str, Mapping[str, str]], placement: Placement
) -> Iterator[Mapping[str, TargetAlone]]:
    """A target for each name and settings, all on the same cores, each with its coordinator.

    The settings are by their names in the code, such as `gather`. Whoever drives them takes turns:
    the idle ones take no time. This process stays on the coordinators' cores until the block ends.
    """
    own_cores = os.sched_getaffinity(0)
    with (
        tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder,
        Deployment(Path(folder), Silent(), grace_s=GRACE_S) as deployment,
    ):
        targets = deployment.start(
            [
                ServicePlan(
                    name=f"target-{name}",
                    command=[*_environment(settings), *_TARGET, *subject.flags, _ANY_PORT],
                    cpus=placement.target_cores,
                )
                for name, settings in variants.items()
            ]
        )
        coordinators = deployment.start(
            [
                service_plan(
                    f"coordinator-{name}",
                    [*_COORDINATOR, _ANY_PORT, f"--target-address={targets[f'target-{name}']}"],
                    placement.other_cores,
                )
                for name in variants
            ]
        )
        os.sched_setaffinity(0, placement.other_cores)
        try:
            yield {
                name: TargetAlone(targets[f"target-{name}"], coordinators[f"coordinator-{name}"])
                for name in variants
            }
        finally:
            os.sched_setaffinity(0, own_cores)


_ANY_PORT = "--listen=127.0.0.1:0"
_TARGET = (sys.executable, "-m", "outrider", "serve", "--end-with-input", "target")
_COORDINATOR = ("outrider", "serve", "--end-with-input", "coordinator", "--draft-address=")


def _environment(settings: Mapping[str, str]) -> Sequence[str]:
    """What begins a command whose environment has these settings: a switch has no flag that turns
    it off."""
    return ["env", *(f"{environment_name(name)}={value}" for name, value in settings.items())]


class Silent:
    """Hears how the start goes and keeps it to itself."""

    def starting(self, name: str) -> None:
        """Says nothing."""

    def line(self, name: str, text: str) -> None:
        """Says nothing: the log file has it."""

    def ready(self, name: str, address: str, seconds: float) -> None:
        """Says so."""
        print(f"  {name} serves at {address} after {seconds:.1f} s", file=sys.stderr, flush=True)


def service_plan(name: str, words: Sequence[str], cores: frozenset[int]) -> ServicePlan:
    """`python -m` and those words, on those cores."""
    return ServicePlan(name=name, command=[sys.executable, "-m", *words], cpus=cores)


def wait_for_draft(client: Client) -> None:
    """Returns once the coordinator can use its draft. Raises RuntimeError with its reason."""
    deadline = time.monotonic() + PAIRING_TIMEOUT_S
    while not client.status().drafts[0].usable:
        if time.monotonic() > deadline:
            raise RuntimeError(f"no usable draft: {client.status().drafts[0].reason}")
        time.sleep(0.1)


def _count(cores: frozenset[int]) -> str:
    return "1 core" if len(cores) == 1 else f"{len(cores)} cores"
