"""Tokenizers of the two common kinds, small, and as files the way a worker serves them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from outrider.testing.tiny_tokenizer import tiny_tokenizer
from outrider.tokenizer_files import (
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    TokenizerFiles,
)

SPECIAL_TOKENS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


def byte_level_tokenizer(extra_tokens: Sequence[str] = ()) -> Tokenizer:
    """The tiny one: bytes in the GPT-2 alphabet. `extra_tokens`: special ones behind it."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in extra_tokens])
    return tokenizer


def byte_fallback_tokenizer() -> Tokenizer:
    """Like Llama 2's: spaces are `▁`, one more begins a text, rare characters are `<0x..>`."""
    characters = ["▁", *"abcdefghijklmnopqrstuvwxyz.,!?", "é", "한"]
    words = ["▁s", "at"]
    tokens = [
        *SPECIAL_TOKENS.values(),
        *(f"<0x{byte:02X}>" for byte in range(256)),
        *characters,
        *words,
    ]
    merges = [("▁", "s"), ("a", "t")]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=merges,
            unk_token=SPECIAL_TOKENS["unk_token"],
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS.values()]
    )
    return adding_bos(tokenizer)


def adding_bos(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer, with a BOS before each text."""
    bos = SPECIAL_TOKENS["bos_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos} $B",
        special_tokens=[(bos, tokenizer.token_to_id(bos))],
    )
    return tokenizer


def tokenizer_files(
    tokenizer: Tokenizer,
    *,
    special_tokens: Mapping[str, str] = SPECIAL_TOKENS,
    chat_template: str | None = None,
) -> TokenizerFiles:
    """The files of a tokenizer."""
    files = {
        TOKENIZER_FILE: tokenizer.to_str().encode(),
        SPECIAL_TOKENS_FILE: json.dumps(dict(special_tokens), sort_keys=True).encode(),
    }
    if chat_template is not None:
        files[CHAT_TEMPLATE_FILE] = chat_template.encode()
    return TokenizerFiles(files)
