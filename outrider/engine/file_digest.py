"""A digest over files, for telling weights apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest_files(paths: Iterable[Path], *labels: str) -> str:
    """SHA-256, in hexadecimal, over the files' contents in the order given, and the labels."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    for label in labels:
        digest.update(hashlib.sha256(label.encode()).digest())
    return digest.hexdigest()
