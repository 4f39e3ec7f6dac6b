"""Text comes in whole characters, each once, however the ids are cut (FAULTS F1, F3, D11)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator.text.detokenizer import Detokenizer
from coordinator.text.tokenizer import TargetTokenizer
from outrider.testing.small_tokenizers import (
    byte_fallback_tokenizer,
    byte_level_tokenizer,
    tokenizer_files,
)

BYTE_LEVEL = TargetTokenizer.from_files(tokenizer_files(byte_level_tokenizer()))
BYTE_FALLBACK = TargetTokenizer.from_files(tokenizer_files(byte_fallback_tokenizer()))
BOTH = pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, BYTE_FALLBACK], ids=["level", "fallback"])
BOS, EOS = 1, 2
EMOJI_AND_HANGUL = "a 👩‍👩‍👧 한국어 é 🙂"


async def ids_of(tokenizer: TargetTokenizer, text: str) -> list[int]:
    return [i for i in await tokenizer.encode(text) if i != BOS]


def byte_ids(tokenizer: TargetTokenizer, data: bytes) -> list[int]:
    """The single-byte tokens of some bytes."""
    spelled = {
        tokenizer.token_bytes.added(i, 3): i
        for i in reversed(range(3, 259))
        if tokenizer.token_bytes.shown(i)
    }
    return [spelled[bytes([byte])] for byte in data]


def streamed(detokenizer: Detokenizer, ids: Sequence[int], size: int) -> list[str]:
    pieces = [detokenizer.push(ids[i : i + size]) for i in range(0, len(ids), size)]
    return [*pieces, detokenizer.finish()]


@BOTH
@pytest.mark.parametrize("size", range(1, 6))
async def test_no_character_is_split_whatever_the_round_length(
    tokenizer: TargetTokenizer, size: int
) -> None:
    ids = await ids_of(tokenizer, EMOJI_AND_HANGUL)
    assert len(ids) > len(EMOJI_AND_HANGUL), "the text must have characters of several tokens"
    pieces = streamed(Detokenizer(tokenizer), ids, size)
    assert "".join(pieces) == EMOJI_AND_HANGUL
    assert pieces[-1] == ""


@BOTH
async def test_each_character_comes_with_its_last_byte(tokenizer: TargetTokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push([i]) for i in byte_ids(tokenizer, "🙂한".encode())]
    assert pieces == ["", "", "", "🙂", "", "", "한"]


@BOTH
@pytest.mark.parametrize("lone", [b"\x80", b"\xff", b"\xc0"])
async def test_a_byte_that_cannot_become_a_character_stalls_nothing(
    tokenizer: TargetTokenizer, lone: bytes
) -> None:
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push(byte_ids(tokenizer, b"a")) == "a"
    assert detokenizer.push(byte_ids(tokenizer, lone)) == "\ufffd"
    assert detokenizer.push(byte_ids(tokenizer, b" b")) == " b"
    assert detokenizer.finish() == ""


@BOTH
async def test_many_broken_bytes_do_not_hold_text_back(tokenizer: TargetTokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push(byte_ids(tokenizer, b"\x80" * 500)) == "\ufffd" * 500
    assert detokenizer.push(byte_ids(tokenizer, b"x")) == "x"


@BOTH
async def test_an_unfinished_character_is_given_at_the_end(tokenizer: TargetTokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.push(byte_ids(tokenizer, "a🙂".encode()[:-1])) == "a"
    assert detokenizer.finish() == "\ufffd"


async def test_a_replacement_character_that_was_written_is_kept() -> None:
    ids = await ids_of(BYTE_LEVEL, "a\ufffdb")
    assert streamed(Detokenizer(BYTE_LEVEL), ids, 1) == ["a", "", "", "\ufffd", "b", ""]


@BOTH
async def test_special_and_unknown_ids_are_no_text(tokenizer: TargetTokenizer) -> None:
    first, *rest = byte_ids(tokenizer, "é!".encode())
    ids = [BOS, first, EOS, 100_000, *rest, EOS]
    assert "".join(streamed(Detokenizer(tokenizer), ids, 1)) == "é!"
    assert tokenizer.decode(ids) == "é!"


@BOTH
@pytest.mark.parametrize("cut", range(0, 40, 3))
async def test_resuming_goes_on_inside_a_character(tokenizer: TargetTokenizer, cut: int) -> None:
    ids = await ids_of(tokenizer, EMOJI_AND_HANGUL)
    before = Detokenizer(tokenizer)
    given = before.push(ids[:cut])
    after = Detokenizer(tokenizer, ids[:cut])
    assert given + "".join(streamed(after, ids[cut:], 2)) == EMOJI_AND_HANGUL


async def test_resuming_reads_only_the_end_of_a_long_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = await ids_of(BYTE_FALLBACK, "cat " * 500)
    read: list[int] = []
    added = BYTE_FALLBACK.token_bytes.added

    def reading(token_id: int, previous: int | None) -> bytes:
        read.append(token_id)
        return added(token_id, previous)

    monkeypatch.setattr(BYTE_FALLBACK.token_bytes, "added", reading)
    Detokenizer(BYTE_FALLBACK, ids)
    assert 1 <= len(read) <= 8


async def test_a_text_of_its_own_begins_without_the_space_of_its_first_word() -> None:
    ids = await ids_of(BYTE_FALLBACK, "the cat")
    assert "".join(streamed(Detokenizer(BYTE_FALLBACK), ids, 1)) == "the cat"


async def test_a_continued_text_keeps_the_space_between_prompt_and_output() -> None:
    prompt = await BYTE_FALLBACK.encode("the")
    output = await ids_of(BYTE_FALLBACK, "cat")
    detokenizer = Detokenizer(BYTE_FALLBACK, prompt_token_ids=prompt)
    assert detokenizer.push(output) == " cat"


async def test_a_prompt_of_special_tokens_alone_is_no_text_to_continue() -> None:
    output = await ids_of(BYTE_FALLBACK, "cat")
    assert Detokenizer(BYTE_FALLBACK, prompt_token_ids=[BOS]).push(output) == "cat"


async def test_resumed_specials_do_not_hide_the_word_before_them() -> None:
    first = await ids_of(BYTE_FALLBACK, "cat")
    detokenizer = Detokenizer(BYTE_FALLBACK, [*first, *[EOS] * 100])
    assert detokenizer.push(first) == " cat"


async def test_an_added_token_outside_the_byte_alphabet_is_plain_text() -> None:
    library = byte_level_tokenizer()
    library.add_tokens(["日本"])
    tokenizer = TargetTokenizer.from_files(tokenizer_files(library))
    ids = [library.token_to_id("日本"), *await ids_of(tokenizer, "é")]
    assert streamed(Detokenizer(tokenizer), ids, 1) == ["日本", "", "é", ""]
    assert library.decode(ids) == "日本é"
