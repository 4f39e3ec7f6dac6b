"""What each output token adds to a text, as UTF-8 bytes.

One token may be a part of a character, so text is joined as bytes. The tokens of the two common
kinds of tokenizer are bytes by themselves: byte-level ones spell bytes in a fixed alphabet, and
others fall back to tokens like `<0xE2>`. All else is asked of the tokenizer's own decoder, next
to the token before, since a leading space depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tokenizers import Tokenizer

REPLACEMENT = "\ufffd"


class TokenBytes:
    """The bytes of shown tokens: those that exist and are not special."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._special = {
            token_id
            for token_id, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
        }
        decoders = set(_decoder_types(tokenizer))
        self._byte_level = "ByteLevel" in decoders
        self._byte_fallback = "ByteFallback" in decoders
        self._spelled: dict[int, bytes] = {}

    def shown(self, token_id: int) -> bool:
        """The id stands for a token, and that is not special."""
        return token_id not in self._special and self._tokenizer.id_to_token(token_id) is not None

    def added(self, token_id: int, previous: int | None) -> bytes:
        """What a shown id adds behind the shown id before it; None begins a text."""
        if self._byte_level:
            return self._spell(token_id)
        if previous is None:
            text: str = self._tokenizer.decode([token_id])
            byte = self._fallback_byte(token_id) if REPLACEMENT in text else None
            return text.encode() if byte is None else byte
        byte = self._fallback_byte(token_id)
        return self._difference(token_id, previous) if byte is None else byte

    def _spell(self, token_id: int) -> bytes:
        known = self._spelled.get(token_id)
        if known is None:
            token: str = self._tokenizer.id_to_token(token_id) or ""
            try:
                known = bytes(BYTE_OF[character] for character in token)
            except KeyError:  # An added token outside the alphabet is plain text.
                known = token.encode()
            self._spelled[token_id] = known
        return known

    def _fallback_byte(self, token_id: int) -> bytes | None:
        if not self._byte_fallback:
            return None
        return _byte_token(self._tokenizer.id_to_token(token_id) or "")

    def _difference(self, token_id: int, previous: int) -> bytes:
        """The text of the token before and this one, less the text of the one before."""
        shorter: str = self._tokenizer.decode([previous])
        longer: str = self._tokenizer.decode([previous, token_id])
        return longer[len(shorter) :].encode()


def _byte_alphabet() -> Iterator[tuple[str, int]]:
    """The character that spells each byte: itself where it is printable, else one from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = 0
    for byte in range(256):
        if byte in printable:
            yield chr(byte), byte
        else:
            yield chr(256 + shifted), byte
            shifted += 1


BYTE_OF = dict(_byte_alphabet())


def _byte_token(token: str) -> bytes | None:
    """The byte of a token like `<0xE2>`."""
    if len(token) != 6 or not token.startswith("<0x") or not token.endswith(">"):
        return None
    try:
        return bytes.fromhex(token[3:5])
    except ValueError:
        return None


def _decoder_types(tokenizer: Tokenizer) -> Sequence[str]:
    """The names of all decoders in the chain."""
    if tokenizer.decoder is None:
        return []

    def names(state: dict[str, Any]) -> Iterator[str]:
        yield state["type"]
        for inner in state.get("decoders", ()):
            yield from names(inner)

    return list(names(json.loads(tokenizer.decoder.__getstate__())))
