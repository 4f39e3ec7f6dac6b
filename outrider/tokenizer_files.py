"""A tokenizer as files, the way workers serve it and the coordinator takes it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

TOKENIZER_FILE = "tokenizer.json"
CHAT_TEMPLATE_FILE = "chat_template.jinja"
SPECIAL_TOKENS_FILE = "special_tokens.json"


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """File name → content. No files: the model has no tokenizer.

    `digest`: SHA-256 over names and contents, in hexadecimal, so over the id → token table, which
    is among them; empty where there are no files. The same files have the same digest in every
    process.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    # Computed once: it is asked for with every look at a worker, and files may have 20 MB.
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", _digest(self.files))

    def __bool__(self) -> bool:
        return bool(self.files)


def _digest(files: Mapping[str, bytes]) -> str:
    if not files:
        return ""
    digest = hashlib.sha256()
    for name in sorted(files):
        content = files[name]
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
