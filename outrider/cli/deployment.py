"""Services as child processes of one command: started, awaited, watched and stopped together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from outrider.cli.processes import ChildProcess, stop_all
from outrider.rpc.ready import announced

POLL_S = 0.1
GRACE_S = 25.0
"""The services' own drain, 20 s unless set, ends before."""
LOADING_GRACE_S = 1.0
"""A service that has not served yet has nothing to lose."""
READY_FILE = "OUTRIDER_READY_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """One service to run."""

    name: str
    """Names it in logs and notices."""
    command: Sequence[str]
    """What to run. It takes its standard input as a lifeline and announces its address in the
    file that OUTRIDER_READY_FILE names, once it serves."""
    vital: bool = True
    """Without it nothing can be served."""
    cpus: frozenset[int] = field(default_factory=frozenset)
    """The only cores it may use; empty: all."""


class ServiceEndedError(Exception):
    """A service ended that was to go on."""

    def __init__(self, child: ChildProcess) -> None:
        lines = "".join(f"\n  {line}" for line in child.last_lines)
        what = f"Its last lines:{lines}" if lines else "It has said nothing."
        super().__init__(f"{child.name} {child.ending}. {what}\nIts log: {child.log_file}")
        self.name = child.name


class StartListener(Protocol):
    """Is told how the start goes."""

    def starting(self, name: str) -> None:
        """A service has been started."""

    def line(self, name: str, text: str) -> None:
        """A service has printed a line. Called on other threads, at any time."""

    def ready(self, name: str, address: str, seconds: float) -> None:
        """A service serves at an address, so many seconds after its start."""


class Deployment:
    """The running services. Use it as a context manager: leaving it stops all of them."""

    def __init__(
        self, run_folder: Path, listener: StartListener, *, grace_s: float = GRACE_S
    ) -> None:
        """Logs go to `run_folder`. A clean stop may take `grace_s`, then it is by force."""
        self._run_folder = run_folder
        self._listener = listener
        self._grace_s = grace_s
        self._children: dict[str, ChildProcess] = {}
        self._vital: set[str] = set()
        self._ready: set[str] = set()

    def start(self, plans: Sequence[ServicePlan]) -> dict[str, str]:
        """Starts services side by side and returns their addresses once all of them serve.

        Raises ServiceEndedError when any service of the deployment ends meanwhile, and OSError.
        """
        started = time.monotonic()
        waiting = [plan.name for plan in plans]
        for plan in plans:
            self._start(plan)
        addresses: dict[str, str] = {}
        while waiting:
            for name in tuple(waiting):
                address = announced(self._ready_file(name))
                if address is not None:
                    addresses[name] = address
                    waiting.remove(name)
                    self._ready.add(name)
                    self._listener.ready(name, address, time.monotonic() - started)
            for child in self._children.values():
                if child.ended:
                    raise ServiceEndedError(child)
            time.sleep(POLL_S)
        return addresses

    def watch(self, on_loss: Callable[[ServiceEndedError], None]) -> None:
        """Returns never. `on_loss` is told when a service ends that the others can do without.

        Raises ServiceEndedError when another one ends.
        """
        watched = dict(self._children)
        while True:
            for name, child in tuple(watched.items()):
                if child.ended and name in self._vital:
                    raise ServiceEndedError(child)
                if child.ended:
                    del watched[name]
                    on_loss(ServiceEndedError(child))
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stops what still runs: cleanly, or at once after a second Ctrl-C."""
        loading = [child for child in self._children.values() if child.name not in self._ready]
        stop_all(loading, grace_s=LOADING_GRACE_S)
        stop_all(reversed(self._children.values()), grace_s=self._grace_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self, plan: ServicePlan) -> None:
        self._ready_file(plan.name).unlink(missing_ok=True)
        self._listener.starting(plan.name)
        self._children[plan.name] = ChildProcess(
            plan.name,
            plan.command,
            log_file=self._run_folder / f"{plan.name}.log",
            on_line=self._listener.line,
            environment={READY_FILE: str(self._ready_file(plan.name))},
            cpus=plan.cpus,
        )
        if plan.vital:
            self._vital.add(plan.name)

    def _ready_file(self, name: str) -> Path:
        return self._run_folder / f"{name}.address"
