"""Streamed text equals the library's own decoding of all ids, for any ids and any cuts."""

from __future__ import annotations

import codecs

from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from coordinator.text.detokenizer import Detokenizer
from coordinator.text.tokenizer import TargetTokenizer
from outrider.testing.small_tokenizers import (
    byte_fallback_tokenizer,
    byte_level_tokenizer,
    tokenizer_files,
)

LEVEL_LIBRARY = byte_level_tokenizer()
LEVEL = TargetTokenizer.from_files(tokenizer_files(LEVEL_LIBRARY))
FALLBACK_LIBRARY = byte_fallback_tokenizer()
FALLBACK = TargetTokenizer.from_files(tokenizer_files(FALLBACK_LIBRARY))
CUTS = st.lists(st.integers(1, 5), min_size=1)
TEXTS = st.lists(
    st.sampled_from(["🙂", "👩‍👩‍👧", "한국", "e\u0301", "é", "🇰🇷", " ", "the", "\ufffd", "\n"])
    | st.text(max_size=4)
).map("".join)
WORDS = ["▁", "▁▁", "▁b", "a", "##c", "d</w>", ".", "é"]
OTHER_DECODERS = {
    "metaspace": decoders.Metaspace(),
    "metaspace without prefix": decoders.Metaspace(prepend_scheme="never"),
    "word pieces": decoders.WordPiece(),
    "suffixes": decoders.BPEDecoder(),
    "none": None,
}


def streamed(tokenizer: TargetTokenizer, ids: list[int], cuts: list[int]) -> str:
    detokenizer = Detokenizer(tokenizer)
    text, start, turn = "", 0, 0
    while start < len(ids):
        end = start + cuts[turn % len(cuts)]
        text += detokenizer.push(ids[start:end])
        start, turn = end, turn + 1
    return text + detokenizer.finish()


@given(st.lists(st.integers(0, LEVEL_LIBRARY.get_vocab_size() + 2), max_size=60), CUTS)
@example([3 + 150] * 40, [1])
def test_any_byte_level_ids(ids: list[int], cuts: list[int]) -> None:
    wanted = LEVEL_LIBRARY.decode(ids, skip_special_tokens=True)
    assert streamed(LEVEL, ids, cuts) == LEVEL.decode(ids) == wanted


@given(TEXTS, CUTS)
def test_any_text_in_fallback_bytes_and_words(text: str, cuts: list[int]) -> None:
    ids = FALLBACK_LIBRARY.encode(text).ids
    wanted = FALLBACK_LIBRARY.decode(ids, skip_special_tokens=True)
    assert wanted.replace("\u2581", " ") == text.replace("\u2581", " ")
    assert streamed(FALLBACK, ids, cuts) == FALLBACK.decode(ids) == wanted


@given(st.lists(st.integers(0, FALLBACK_LIBRARY.get_vocab_size() - 1), max_size=40), CUTS)
def test_any_fallback_ids_give_the_same_text_however_they_are_cut(
    ids: list[int], cuts: list[int]
) -> None:
    # In a broken run of bytes the library also gives up the whole characters before the fault.
    text = streamed(FALLBACK, ids, cuts)
    assert text == FALLBACK.decode(ids)
    wanted = FALLBACK_LIBRARY.decode(ids, skip_special_tokens=True)
    if "\ufffd" not in wanted:
        assert text == wanted


@given(
    st.sampled_from(sorted(OTHER_DECODERS)),
    st.lists(st.integers(0, len(WORDS) - 1), max_size=20),
    CUTS,
)
def test_any_ids_of_other_kinds(kind: str, ids: list[int], cuts: list[int]) -> None:
    library = Tokenizer(models.BPE({word: i for i, word in enumerate(WORDS)}, []))
    if OTHER_DECODERS[kind] is not None:
        library.decoder = OTHER_DECODERS[kind]
    tokenizer = TargetTokenizer(library, special_tokens={})
    assert streamed(tokenizer, ids, cuts) == tokenizer.decode(ids) == library.decode(ids)


@given(st.binary(max_size=12))
def test_no_more_than_three_bytes_are_held_back(data: bytes) -> None:
    spelled = {LEVEL.token_bytes.added(i, None): i for i in range(3, 259)}
    detokenizer = Detokenizer(LEVEL)
    detokenizer.push([spelled[bytes([byte])] for byte in data])
    held = detokenizer.finish()
    assert len(held) <= 1
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    assert bool(held) == bool(decoder.getstate()[0])
