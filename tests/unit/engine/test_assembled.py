"""Folders that are made once: whole or not there, whoever else wants them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from outrider.engine.assembled import assembled_folder
from outrider.engine.load_error import ModelLoadError

RACER = """
import sys, time
from pathlib import Path
from outrider.engine.assembled import assembled_folder

cache = Path(sys.argv[1])

def make(folder):
    with (cache / "made").open("a") as log:
        log.write("x")
    for name in "ab":
        (folder / name).write_text(name)
        time.sleep(0.2)

found = assembled_folder(cache, "key", make)
assert {path.name for path in found.iterdir()} == {"a", "b"}, list(found.iterdir())
"""


def test_it_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "a").write_text("a")

    first = assembled_folder(tmp_path / "cache", "key", make)
    second = assembled_folder(tmp_path / "cache", "key", make)
    assert first == second == tmp_path / "cache" / "key"
    assert len(made) == 1
    assert made[0] != first, "it is written elsewhere first"
    assert (first / "a").read_text() == "a"


def test_half_a_folder_is_never_used(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise ValueError("interrupted")

    with pytest.raises(ValueError, match="interrupted"):
        assembled_folder(tmp_path, "key", fail)
    assert not (tmp_path / "key").exists()
    killed = tmp_path / "key.partial-killed"
    killed.mkdir()
    (killed / "a").write_text("half")
    whole = assembled_folder(tmp_path, "key", lambda folder: None)
    assert list(whole.iterdir()) == []
    assert not killed.exists()


def test_several_processes_make_it_once_between_them(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for racer in racers:
        _, errors = racer.communicate(timeout=60)
        assert racer.returncode == 0, errors.decode()
    assert (tmp_path / "made").read_text() == "x"


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ModelLoadError, match=str(blocked)):
        assembled_folder(blocked, "key", lambda folder: None)
