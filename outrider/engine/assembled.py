"""Folders that are made once and then only read, in a cache that several processes share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from outrider.engine.load_error import ModelLoadError


def assembled_folder(cache_dir: Path, key: str, make: Callable[[Path], None]) -> Path:
    """The folder of that key, made by `make` into an empty folder unless it is there already.

    It appears under its name only when it is whole. Of several processes that want it at once,
    one makes it and the others wait. Raises ModelLoadError when the cache cannot be written.
    """
    folder = cache_dir / key
    if folder.is_dir():
        return folder
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with FileLock(cache_dir / f"{key}.lock"):
            if not folder.is_dir():
                _make(folder, make)
    except OSError as error:
        raise ModelLoadError(f"{folder}: cannot be written: {error}") from error
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    # What a killed process left behind is of no use, and nobody else is here.
    for leftover in folder.parent.glob(f"{folder.name}.partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.partial-", dir=folder.parent))
    try:
        make(partial)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
