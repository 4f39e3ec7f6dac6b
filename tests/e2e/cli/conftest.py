"""Tiny models in folders, and `outrider up` as a process with all that it starts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outrider.testing.tiny_models import DRAFT_SEED, TARGET_SEED, save_tiny

TIMEOUT_S = 120.0


@dataclass(frozen=True)
class TinyFolders:
    """A target and a draft that share a tokenizer."""

    target: Path
    draft: Path

    @property
    def flags(self) -> list[str]:
        """What serves them, small and exact."""
        models = ["--target-model", str(self.target), "--draft-model", str(self.draft)]
        return [*models, "--dtype", "float64", "--threads", "1"]


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> TinyFolders:
    """Both models on disk."""
    root = tmp_path_factory.mktemp("tiny")
    return TinyFolders(
        save_tiny(root / "target", seed=TARGET_SEED), save_tiny(root / "draft", seed=DRAFT_SEED)
    )


@dataclass
class Up:
    """A running `outrider up`."""

    process: subprocess.Popen[str]
    endpoints: dict[str, str]
    logs: Path

    def children(self) -> dict[str, int]:
        """Process ids of the services that it runs, by name."""
        return {
            command[command.index("serve") + 2]: pid
            for pid, parent, command in _processes()
            if parent == self.process.pid and "serve" in command
        }

    def generate(self, *arguments: str) -> dict[str, Any]:
        """What `outrider generate --json` answers here."""
        address = self.endpoints["coordinator"]
        done = subprocess.run(
            [*OUTRIDER, "generate", "--json", "--address", address, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        return dict(json.loads(done.stdout))


OUTRIDER = [sys.executable, "-m", "outrider"]
StartUp = Callable[..., AbstractContextManager[Up]]


@pytest.fixture
def start_up(tmp_path: Path) -> StartUp:
    """Starts `outrider up` on free ports and waits for its endpoints."""

    @contextmanager
    def start(*flags: str) -> Iterator[Up]:
        notices = (tmp_path / "notices").open("w")
        process = subprocess.Popen(
            [*OUTRIDER, "up", "--port", "0", "--log-folder", str(tmp_path / "logs"), *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=notices,
            text=True,
        )
        assert process.stdout is not None
        try:
            up = Up(process, {}, tmp_path)
            services = 2 if "--no-draft" in flags else 3
            for _ in range(services):
                name, _, address = process.stdout.readline().strip().partition(" ")
                assert address, (tmp_path / "notices").read_text()
                up.endpoints[name] = address
            yield up
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            notices.close()

    return start


@pytest.fixture
def wait_for() -> Callable[[Callable[[], bool]], None]:
    """Waits until a condition holds."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    return wait


def _processes() -> Iterator[tuple[int, int, list[str]]]:
    """Id, parent and command of every live process that this user may see."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            yield int(folder.name), int(parent), command


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process runs."""
    return lambda pid: any(pid == other for other, _, _ in _processes())
