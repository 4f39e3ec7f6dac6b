"""Reads the tokenizer's files from a model's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.engine.load_error import ModelLoadError
from outrider.tokenizer_files import (
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    TokenizerFiles,
)

CONVERTIBLE_FILES = ("tokenizer.model", "vocab.json", "vocab.txt", "tekken.json")
"""Tokenizers of other formats, which transformers turns into a `tokenizer.json`."""


def read_tokenizer_files(folder: Path | None) -> TokenizerFiles:
    """The files of a model folder; none where it has no tokenizer.

    The special tokens are served as one object: name, such as `bos_token` → token text. Whether a
    text gets a BOS is in the tokenizer's own post-processor, as transformers has it. Raises
    ModelLoadError when there is a tokenizer that cannot be read.
    """
    if folder is None:
        return TokenizerFiles()
    config = _read_json(folder / "tokenizer_config.json")
    special_tokens = {
        **_special_tokens(_read_json(folder / "special_tokens_map.json")),
        **_special_tokens(config),
    }
    if (folder / TOKENIZER_FILE).is_file():
        tokenizer = (folder / TOKENIZER_FILE).read_bytes()
    elif any((folder / name).is_file() for name in CONVERTIBLE_FILES):
        tokenizer, found = _convert(folder)
        special_tokens = {**found, **special_tokens}
    else:
        return TokenizerFiles()
    files = {
        TOKENIZER_FILE: tokenizer,
        SPECIAL_TOKENS_FILE: json.dumps(special_tokens, sort_keys=True).encode(),
    }
    template = _chat_template(folder, config)
    if template is not None:
        files[CHAT_TEMPLATE_FILE] = template.encode()
    return TokenizerFiles(files)


def _convert(folder: Path) -> tuple[bytes, dict[str, str]]:
    """A `tokenizer.json` and the special tokens, by transformers."""
    from transformers import AutoTokenizer  # Slow to import, and rarely needed.

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        converted = tokenizer.backend_tokenizer.to_str()
        special_tokens = _special_tokens(tokenizer.special_tokens_map)
    except Exception as error:
        raise ModelLoadError(f"{folder}: no tokenizer: {type(error).__name__}: {error}") from error
    return converted.encode(), special_tokens


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Name → token text; entries may be plain strings or objects with a `content`."""
    found = {}
    for name, token in config.items():
        text = token.get("content") if isinstance(token, dict) else token
        if name.endswith("_token") and isinstance(text, str):
            found[name] = text
    return found


def _chat_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """The template in its own file, else the one in the configuration, `default` among several."""
    path = folder / CHAT_TEMPLATE_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is no such file."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelLoadError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelLoadError(f"{path}: not a JSON object")
    return content
