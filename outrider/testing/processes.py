"""The three services as real processes on loopback, for end-to-end tests and benchmarks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from outrider.rpc.ready import announced

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.05


@dataclass(slots=True)
class ServiceProcess:
    """One `outrider serve` and its log. Settings are those of its environment variables."""

    name: str
    folder: Path
    settings: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: Sequence[int] = ()
    address: str = ""
    replica: str = ""
    """Tells it from others of the same name in the folder."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and returns once it serves. Raises RuntimeError with its log if it ends."""
        ready_file = self.folder / f"{self.name}{self.replica}.address"
        ready_file.unlink(missing_ok=True)
        settings = {f"OUTRIDER_{name.upper()}": value for name, value in self.settings.items()}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "outrider", "serve", self.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "OUTRIDER_LISTEN": self.address or "127.0.0.1:0",
                    "OUTRIDER_READY_FILE": str(ready_file),
                    **settings,
                    **self.environment,
                },
            )
        if self.cpus:
            os.sched_setaffinity(self.process.pid, self.cpus)
        deadline = time.monotonic() + START_TIMEOUT_S
        while (address := announced(ready_file)) is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()}")
            time.sleep(POLL_S)
        self.address = address

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.folder / f"{self.name}{self.replica}.log"

    @property
    def pid(self) -> int:
        """Its process id. Only while it runs."""
        if self.process is None:
            raise RuntimeError(f"{self.name}{self.replica} does not run")
        return self.process.pid

    def freeze(self) -> None:
        """Stops it where it stands, as SIGSTOP does: connections stay, nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it as `kill -9` does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ends it in an orderly way; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


@dataclass(slots=True)
class Services:
    """A running target, draft and coordinator."""

    target: ServiceProcess
    draft: ServiceProcess
    coordinator: ServiceProcess

    @property
    def address(self) -> str:
        """Where the coordinator listens."""
        return self.coordinator.address


@contextmanager
def running_services(
    folder: Path,
    *,
    target: Mapping[str, str],
    draft: Mapping[str, str],
    coordinator: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    cpus: Mapping[str, Sequence[int]] | None = None,
) -> Iterator[Services]:
    """Starts all three; settings by name, as in `{"dtype": "float32"}`. Stops them at the end."""
    pinned = cpus or {}
    services: list[ServiceProcess] = []
    with ExitStack() as stack:

        def start(name: str, settings: Mapping[str, str]) -> ServiceProcess:
            service = ServiceProcess(
                name, folder, settings, environment or {}, pinned.get(name, ())
            )
            stack.callback(service.stop)
            service.start()
            services.append(service)
            return service

        target_process = start("target", target)
        draft_process = start("draft", draft)
        addresses = {
            "target_address": target_process.address,
            "draft_address": draft_process.address,
        }
        coordinator_process = start("coordinator", {**addresses, **(coordinator or {})})
        yield Services(target_process, draft_process, coordinator_process)
