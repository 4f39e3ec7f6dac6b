"""Which ids a tokenizer has, and which end or begin a text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from outrider.engine.load_error import ModelLoadError


def tokenizer_size(folder: Path) -> int | None:
    """The largest id of the tokenizer plus one; None without a `tokenizer.json`.

    Raises ModelLoadError.
    """
    ids = _token_ids(folder)
    return None if ids is None else max(ids.values(), default=-1) + 1


def eos_token_ids(model: PreTrainedModel, folder: Path) -> tuple[int, ...]:
    """Ids that end a text: of the generation configuration, the model and the tokenizer; rising."""
    found = {
        *_listed(getattr(model.generation_config, "eos_token_id", None)),
        *_listed(getattr(model.config.get_text_config(decoder=True), "eos_token_id", None)),
        *_listed(_tokenizer_eos(folder)),
    }
    return tuple(sorted(found))


def bos_token_id(model: PreTrainedModel) -> int | None:
    """The id that begins a text, if the model's configuration names one."""
    found = getattr(model.config.get_text_config(decoder=True), "bos_token_id", None)
    return found if isinstance(found, int) else None


def _listed(ids: int | Iterable[int] | None) -> tuple[int, ...]:
    if ids is None:
        return ()
    return (ids,) if isinstance(ids, int) else tuple(ids)


def _tokenizer_eos(folder: Path) -> int | None:
    config = _read_json(folder / "tokenizer_config.json") or {}
    token = config.get("eos_token")
    text = token.get("content") if isinstance(token, dict) else token
    return (_token_ids(folder) or {}).get(text) if isinstance(text, str) else None


def _token_ids(folder: Path) -> dict[str, int] | None:
    """Token text → id. Vocabularies are objects or, in Unigram models, lists of pairs."""
    tokenizer = _read_json(folder / "tokenizer.json")
    if tokenizer is None:
        return None
    try:
        vocabulary = tokenizer["model"]["vocab"]
        if isinstance(vocabulary, list):
            vocabulary = {entry[0]: index for index, entry in enumerate(vocabulary)}
        added = {token["content"]: token["id"] for token in tokenizer.get("added_tokens") or ()}
        return {**vocabulary, **added}
    except (KeyError, TypeError, IndexError) as error:
        raise ModelLoadError(f"{folder / 'tokenizer.json'}: not a tokenizer's file") from error


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelLoadError(f"{path}: not JSON: {error}") from error
    return content
