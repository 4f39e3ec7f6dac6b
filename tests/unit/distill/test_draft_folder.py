"""A draft's folder holds the old draft, the new one, or none: never something of both."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from outrider.distill import draft_folder
from outrider.distill.draft_folder import MAKING, WEIGHTS, check_out, write_draft
from outrider.distill.errors import DistillError
from outrider.distill.folders import PROBE, alone_in
from outrider.distill.student import Student
from outrider.testing.tiny_models import save_tiny, tiny_llama

IDS = torch.arange(0, 40)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return save_tiny(tmp_path / "target")


def write(folder: Path, target: Path, card: str) -> None:
    student = Student(tiny_llama(seed=1), IDS)
    write_draft(folder, student, target=target, numbers=torch.bfloat16, card=card)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path: Path, target: Path) -> None:
    out = tmp_path / "draft"
    (out / MAKING).mkdir(parents=True)
    (out / MAKING / f".{WEIGHTS}.part").write_text("half")
    (out / PROBE).touch()
    check_out(out)
    write(out, target, "the card")
    assert WEIGHTS in files(out)
    assert not (out / MAKING).exists()


def test_a_new_draft_takes_the_place_of_all_of_an_old_one(tmp_path: Path, target: Path) -> None:
    out = tmp_path / "draft"
    write(out, target, "the old card")
    (out / "vocab.json").write_text("of another tokenizer")
    (out / "notes.txt").write_text("came while it was made")
    write(out, target, "the new card")
    found = files(out)
    assert found["README.md"] == b"the new card"
    assert found["notes.txt"] == b"came while it was made"
    assert "vocab.json" not in found


def test_an_old_draft_stays_where_the_new_one_cannot_be_written(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "draft"
    write(out, target, "the old card")
    before = files(out)

    def full(*_: object) -> None:
        raise DistillError("no space left")

    monkeypatch.setattr(draft_folder, "put_tensors", full)
    with pytest.raises(DistillError, match="no space left"):
        write(out, target, "the new card")
    assert files(out) == before


@pytest.mark.parametrize("name", ["config.json", "README.md", WEIGHTS])
def test_a_kill_between_two_files_leaves_no_mixture(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = tmp_path / "draft"
    write(out, target, "the old card")
    replace = Path.replace

    def killed(path: Path, to: Path) -> Path:
        if path.name == name:
            raise KeyboardInterrupt
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write(out, target, "the new card")
    assert not (out / WEIGHTS).exists(), "nobody takes it for a model"
    monkeypatch.setattr(Path, "replace", replace)
    check_out(out)
    write(out, target, "the new card")
    assert files(out)["README.md"] == b"the new card"


def test_two_runs_are_not_in_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    with alone_in(folder), pytest.raises(DistillError, match="another run"), alone_in(folder):
        pass
    with alone_in(folder):
        pass
