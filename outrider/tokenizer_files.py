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
    """File name → content. No files: the model has no tokenizer."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files)

    @property
    def digest(self) -> str:
        """SHA-256 over names and contents, in hexadecimal; empty where there are no files."""
        if not self.files:
            return ""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            content = self.files[name]
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()
