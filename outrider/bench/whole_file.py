"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Puts a file in place once it is complete. Raises OSError."""
    part = _part_of(path)
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raises OSError if `write_whole` would."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    part = _part_of(path)
    part.touch()
    part.unlink()


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.part")
