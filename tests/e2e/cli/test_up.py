"""`outrider up` with real services and tiny models."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import StartUp, TinyFolders

GREEDY = ("A story", "--temperature", "0", "--max-new-tokens", "40")
Alive = Callable[[int], bool]
WaitFor = Callable[[Callable[[], bool]], None]


def test_the_pair_serves_survives_its_draft_and_stops(
    start_up: StartUp, tiny_folders: TinyFolders, alive: Alive, wait_for: WaitFor
) -> None:
    with start_up(*tiny_folders.flags) as up:
        assert set(up.endpoints) == {"target", "draft", "coordinator"}
        with_draft = up.generate(*GREEDY)
        alone = up.generate(*GREEDY, "--no-speculation")
        assert with_draft["token_ids"] == alone["token_ids"]
        assert with_draft["usage"]["output_tokens"] == len(with_draft["token_ids"])
        assert with_draft["reproducible"]
        assert with_draft["speculation"]["draft_tokens"] > 0
        assert alone["speculation"]["draft_tokens"] == 0

        seeded = ("Once", "--seed", "7", "--max-new-tokens", "30")
        assert up.generate(*seeded)["token_ids"] == up.generate(*seeded)["token_ids"]
        assert up.generate(*seeded, "--raw")["token_ids"] != up.generate(*seeded)["token_ids"]

        status = subprocess.run(
            [sys.executable, "-m", "outrider", "status", "--address", up.endpoints["coordinator"]],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for fact in (up.endpoints["target"], up.endpoints["draft"], "float64", "serving"):
            assert fact in status

        children = up.children()
        assert set(children) == {"target", "draft", "coordinator"}
        os.kill(children["draft"], signal.SIGKILL)
        wait_for(lambda: not alive(children["draft"]))
        assert up.generate(*GREEDY)["token_ids"] == alone["token_ids"]
        wait_for(lambda: "goes on alone" in _notices(up.logs))
        assert up.process.poll() is None

        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(timeout=60) == 0
        assert not any(alive(pid) for pid in children.values())


def test_the_death_of_the_target_ends_everything(
    start_up: StartUp, tiny_folders: TinyFolders, alive: Alive
) -> None:
    with start_up(*tiny_folders.flags, "--no-draft") as up:
        children = up.children()
        assert set(children) == {"target", "coordinator"}
        assert up.generate(*GREEDY)["speculation"]["draft_tokens"] == 0
        os.kill(children["target"], signal.SIGKILL)
        assert up.process.wait(timeout=60) == 1
        assert "target ended by SIGKILL" in _notices(up.logs)
        assert "--draft-model has no effect beside --no-draft" in _notices(up.logs)
        assert not any(alive(pid) for pid in children.values())


def test_no_service_outlives_a_killed_parent(
    start_up: StartUp, tiny_folders: TinyFolders, alive: Alive, wait_for: WaitFor
) -> None:
    with start_up(*tiny_folders.flags) as up:
        children = up.children()
        assert len(children) == 3
        up.process.kill()
        wait_for(lambda: not any(alive(pid) for pid in children.values()))


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    flags = ["--port=0", "--no-draft", f"--target-model={nowhere}", f"--log-folder={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "up", *flags],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "target ended with code 1" in done.stderr
    assert f"{nowhere}: no such folder" in done.stderr


def _notices(folder: Path) -> str:
    return (folder / "notices").read_text()
