"""Reads the tokenizer's files from a model's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outrider.tokenizer_files import (
    CHAT_TEMPLATE_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_FILE,
    TokenizerFiles,
)

SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


def read_tokenizer_files(folder: Path | None) -> TokenizerFiles:
    """The files of a model folder; none where it has no `tokenizer.json`."""
    if folder is None or not (folder / TOKENIZER_FILE).is_file():
        return TokenizerFiles()
    config = _tokenizer_config(folder)
    files = {
        TOKENIZER_FILE: (folder / TOKENIZER_FILE).read_bytes(),
        SPECIAL_TOKENS_FILE: json.dumps(_special_tokens(config), sort_keys=True).encode(),
    }
    template = _chat_template(folder, config)
    if template is not None:
        files[CHAT_TEMPLATE_FILE] = template.encode()
    return TokenizerFiles(files)


def _tokenizer_config(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    config: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return config


def _special_tokens(config: dict[str, Any]) -> dict[str, str]:
    """Name → token text; entries may be plain strings or objects with a `content`."""
    found = {}
    for name in SPECIAL_TOKENS:
        token = config.get(name)
        text = token.get("content") if isinstance(token, dict) else token
        if isinstance(text, str):
            found[name] = text
    return found


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    """The template in its own file, else the one in the configuration, `default` among several."""
    path = folder / CHAT_TEMPLATE_FILE
    if path.is_file():
        return path.read_text()
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None
