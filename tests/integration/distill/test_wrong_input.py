"""What cannot be distilled is refused in words that help, before anything is written over."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.bench.prompts import PromptFileError
from outrider.cli.main import app
from outrider.distill.distillation import Distillation
from outrider.distill.errors import DistillError
from outrider.engine.load_error import ModelLoadError
from tests.integration.distill.tiny_distillation import (
    Heard,
    plan,
    save_target,
    save_with_head_of_its_own,
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_target(tmp_path_factory.mktemp("target") / "tiny")


def refused(tmp_path: Path, target: Path, kind: type[Exception], **changes: Any) -> str:
    """The words it is refused with; it leaves no folder that was not there."""
    made = dataclasses.replace(plan(target, tmp_path / "draft"), **changes)
    folders = (made.out, made.work)
    there = [folder.exists() for folder in folders]
    with pytest.raises(kind) as caught:
        Distillation(made, cache_dir=tmp_path / "cache", events=Heard())
    assert [folder.exists() for folder in folders] == there
    return str(caught.value)


def test_no_such_target(tmp_path: Path, target: Path) -> None:
    words = refused(tmp_path, tmp_path / "nothing", ModelLoadError)
    assert str(tmp_path / "nothing") in words


def test_a_target_without_chat_template_and_no_text(tmp_path: Path) -> None:
    plain = save_target(tmp_path / "plain", chats=False)
    assert "--text" in refused(tmp_path, plain, DistillError)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Hello"}\n' * 3)
    words = refused(tmp_path, plain, DistillError, prompts=prompts)
    assert "no chat template" in words


@pytest.mark.parametrize("content", ["", "\n\n", '{"prompt": ""}\n', "hello\n"])
def test_a_file_of_prompts_that_holds_none(tmp_path: Path, target: Path, content: str) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(content)
    assert str(prompts) in refused(tmp_path, target, PromptFileError, prompts=prompts)


def test_texts_that_cannot_be_read(tmp_path: Path, target: Path) -> None:
    empty, binary = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_text("  \n")
    binary.write_bytes(b"text \xff\xfe")
    assert "no text in it" in refused(tmp_path, target, DistillError, texts=(empty,))
    assert "not UTF-8" in refused(tmp_path, target, DistillError, texts=(binary,))
    missing = tmp_path / "missing.txt"
    assert str(missing) in refused(tmp_path, target, DistillError, texts=(missing,))


def test_an_out_folder_that_is_something_else(tmp_path: Path, target: Path) -> None:
    out = tmp_path / "draft"
    out.write_text("a file")
    assert "is a file" in refused(tmp_path, target, DistillError)
    out.unlink()
    out.mkdir()
    (out / "thesis.tex").write_text("precious")
    assert "thesis.tex" in refused(tmp_path, target, DistillError)
    assert (out / "thesis.tex").read_text() == "precious"


def test_an_out_folder_that_is_the_target(tmp_path: Path, target: Path) -> None:
    before = (target / "model.safetensors").read_bytes()
    assert "no draft made here" in refused(tmp_path, target, DistillError, out=target)
    assert (target / "model.safetensors").read_bytes() == before


def test_layers_that_the_target_lacks(tmp_path: Path, target: Path) -> None:
    assert "0 to 3" in refused(tmp_path, target, DistillError, layers=(0, 4))
    assert "1 to 4" in refused(tmp_path, target, DistillError, layers=9)


def test_answers_that_the_target_has_no_room_for(tmp_path: Path, target: Path) -> None:
    assert "--longest" in refused(tmp_path, target, DistillError, longest=10_000)
    prompts = tmp_path / "prompts.jsonl"
    long = json.dumps({"prompt": "word " * 1000})
    prompts.write_text(f'{{"prompt": "Hello"}}\n{long}\n')
    assert "word word" in refused(tmp_path, target, DistillError, prompts=prompts)


def test_more_texts_side_by_side_than_memory_holds(tmp_path: Path, target: Path) -> None:
    words = refused(tmp_path, target, DistillError, side_by_side=10**9)
    assert "--side-by-side: 1000000000 texts" in words


def test_a_target_of_which_no_draft_could_be_served(tmp_path: Path, target: Path) -> None:
    scaled = save_with_head_of_its_own(tmp_path / "scaled", logits_scaling=8.0)
    assert "cannot be cut" in refused(tmp_path, scaled, DistillError)


def test_a_work_folder_that_was_judged_by_other_texts(tmp_path: Path, target: Path) -> None:
    def run(held_out_texts: int) -> None:
        made = plan(target, tmp_path / "draft", tokens=600, held_out_texts=held_out_texts)
        Distillation(made, cache_dir=tmp_path / "cache", events=Heard()).run()

    run(8)
    with pytest.raises(DistillError, match=r"held-out-greedy.*other options"):
        run(6)
    for path in (tmp_path / "draft-work" / "corpus").glob("held-out-*"):
        path.unlink()
    with pytest.raises(DistillError, match="checkpoints of another draft"):
        run(6)


def test_prompts_that_are_all_held_out(tmp_path: Path, target: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "Hello"}\n')
    words = refused(tmp_path, target, DistillError, prompts=prompts, held_out=prompts)
    assert "holds out every prompt" in words


def test_a_draft_to_go_on_from_that_is_none(tmp_path: Path, target: Path) -> None:
    words = refused(tmp_path, target, DistillError, begin_from=tmp_path)
    assert str(tmp_path) in words
    words = refused(tmp_path, target, DistillError, begin_from=tmp_path / "missing")
    assert "--begin-from" in words
    assert "no such folder" in words
    gguf = tmp_path / "draft.gguf"
    gguf.write_bytes(b"GGUF")
    words = refused(tmp_path, target, DistillError, begin_from=gguf)
    assert str(gguf) in words


@pytest.mark.embedded
def test_a_draft_to_go_on_from_that_is_one_of_another_target(tmp_path: Path, target: Path) -> None:
    words = refused(tmp_path, target, DistillError, begin_from=Path("embedded"))
    assert "49152 ids instead of" in words


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--layers", "two"], "--layers"),
        (["--layers", "0"], "--layers"),
        (["--loss", "mse"], "--loss"),
        (["--own-turns", "2"], "--own-turns"),
        (["--tokens", "0"], "--tokens"),
    ],
)
def test_wrong_options(tmp_path: Path, words: list[str], named: str) -> None:
    result = CliRunner().invoke(app, ["distill", "--out", str(tmp_path / "draft"), *words])
    assert result.exit_code == 2
    assert named in result.output
    assert not (tmp_path / "draft").exists()
