"""The digest of a tokenizer's files names exactly these files."""

from __future__ import annotations

import subprocess
import sys

from outrider.testing.small_tokenizers import byte_level_tokenizer, tokenizer_files
from outrider.tokenizer_files import TokenizerFiles


def test_no_files_have_no_digest() -> None:
    assert TokenizerFiles().digest == ""
    assert not TokenizerFiles()


def test_the_order_of_files_does_not_matter() -> None:
    assert TokenizerFiles({"a": b"1", "b": b"2"}) == TokenizerFiles({"b": b"2", "a": b"1"})
    assert TokenizerFiles({"a": b"1", "b": b"2"}).digest == (
        TokenizerFiles({"b": b"2", "a": b"1"}).digest
    )


def test_names_contents_and_their_borders_matter() -> None:
    contents = [
        {"a": b"12"},
        {"a": b"1", "b": b"2"},
        {"a": b"2", "b": b"1"},
        {"b": b"12"},
        {"a": b""},
    ]
    assert len({TokenizerFiles(files).digest for files in contents}) == len(contents)


def test_one_more_special_token_is_another_digest() -> None:
    longer = tokenizer_files(byte_level_tokenizer(["<extra>"]))
    assert longer.digest != tokenizer_files(byte_level_tokenizer()).digest


def test_another_process_finds_the_same_digest() -> None:
    code = (
        "from outrider.testing.small_tokenizers import byte_level_tokenizer, tokenizer_files\n"
        "print(tokenizer_files(byte_level_tokenizer()).digest)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert other.stdout.strip() == tokenizer_files(byte_level_tokenizer()).digest
