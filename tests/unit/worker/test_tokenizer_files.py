"""What a worker reads of a model folder to serve its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from coordinator.text.tokenizer import TargetTokenizer
from outrider.engine.load_error import ModelLoadError
from outrider.testing.tiny_tokenizer import CHAT_TEMPLATE, save_tiny_tokenizer, tiny_tokenizer
from outrider.tokenizer_files import CHAT_TEMPLATE_FILE, SPECIAL_TOKENS_FILE, TOKENIZER_FILE
from outrider.worker.tokenizer_files import read_tokenizer_files

NAMED = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "chosen"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with a tokenizer."""
    save_tiny_tokenizer(tmp_path)
    return tmp_path


def configure(folder: Path, **config: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_all_files_of_a_folder(folder: Path) -> None:
    files = read_tokenizer_files(folder).files
    assert files[TOKENIZER_FILE] == (folder / "tokenizer.json").read_bytes()
    assert files[CHAT_TEMPLATE_FILE].decode() == CHAT_TEMPLATE
    assert json.loads(files[SPECIAL_TOKENS_FILE]) == {
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }


@pytest.mark.parametrize("exists", [True, False])
def test_a_model_without_tokenizer_has_no_files(tmp_path: Path, exists: bool) -> None:
    files = read_tokenizer_files(tmp_path if exists else None)
    assert not files
    assert files.digest == ""


def test_the_same_folder_has_the_same_digest(folder: Path) -> None:
    first = read_tokenizer_files(folder).digest
    assert first == read_tokenizer_files(folder).digest
    (folder / "chat_template.jinja").write_text("other")
    assert first != read_tokenizer_files(folder).digest


def test_special_tokens_are_texts_wherever_and_however_they_stand(folder: Path) -> None:
    configure(
        folder,
        bos_token={"content": "<s>", "lstrip": False},
        eos_token="</s>",
        pad_token=None,
        add_bos_token=True,
        image_token="<image>",
        model_max_length=4,
    )
    other = {"eos_token": "<old>", "sep_token": "<sep>"}
    (folder / "special_tokens_map.json").write_text(json.dumps(other))
    assert json.loads(read_tokenizer_files(folder).files[SPECIAL_TOKENS_FILE]) == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "image_token": "<image>",
        "sep_token": "<sep>",
    }


@pytest.mark.parametrize(
    ("in_config", "in_file", "wanted"),
    [
        ("config", None, "config"),
        ("config", "file", "file"),
        (NAMED, None, "chosen"),
        (NAMED[:1], None, None),
        (None, None, None),
    ],
)
def test_which_chat_template_counts(
    folder: Path, in_config: object, in_file: str | None, wanted: str | None
) -> None:
    configure(folder, chat_template=in_config)
    (folder / "chat_template.jinja").unlink()
    if in_file is not None:
        (folder / "chat_template.jinja").write_text(in_file)
    found = read_tokenizer_files(folder).files.get(CHAT_TEMPLATE_FILE)
    assert (found.decode() if found is not None else None) == wanted


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_configuration_is_named(folder: Path, content: str) -> None:
    (folder / "tokenizer_config.json").write_text(content)
    with pytest.raises(ModelLoadError, match=r"tokenizer_config\.json"):
        read_tokenizer_files(folder)


async def test_other_formats_are_converted(tmp_path: Path) -> None:
    model = json.loads(tiny_tokenizer().to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in model["merges"])]
    (tmp_path / "merges.txt").write_text("\n".join(lines))
    configure(
        tmp_path,
        tokenizer_class="GPT2Tokenizer",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    files = read_tokenizer_files(tmp_path)
    assert files.digest == read_tokenizer_files(tmp_path).digest
    text = "the hat is in tension </s> 한"
    wanted = AutoTokenizer.from_pretrained(tmp_path).encode(text)
    served = TargetTokenizer.from_files(files)
    assert await served.encode(text) == wanted
    assert json.loads(files.files[SPECIAL_TOKENS_FILE])["bos_token"] == "<s>"


def test_a_tokenizer_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"\x00not a model")
    configure(tmp_path, tokenizer_class="LlamaTokenizer")
    with pytest.raises(ModelLoadError, match=f"{tmp_path}: no tokenizer"):
        read_tokenizer_files(tmp_path)
