"""What files say, read again when they were replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import structlog

ValueT = TypeVar("ValueT")
Version: TypeAlias = tuple[tuple[int, int, int] | None, ...]

LOOK_INTERVAL_S = 1.0
"""How long a replaced file may go unnoticed."""

log = structlog.get_logger(__name__)


class FilesError(Exception):
    """Files cannot be used. Its text names them and never quotes what they hold."""


class WatchedFiles(Generic[ValueT]):
    """The value that some files have together.

    A replacement that cannot be used changes nothing and is logged. Any thread may ask.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], ValueT]) -> None:
        """`read` gives the value of the files as they are; it and this raise FilesError."""
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._generation = 0
        self._version = version_of(paths)
        self._value = read()
        self._looked_at = time.monotonic()

    def current(self) -> tuple[int, ValueT]:
        """How often the value was replaced, and the newest that can be used."""
        with self._lock:
            if self._paths and time.monotonic() - self._looked_at >= LOOK_INTERVAL_S:
                self._looked_at = time.monotonic()
                self._look()
            return self._generation, self._value

    def _look(self) -> None:
        version = version_of(self._paths)
        if version == self._version:
            return
        names = [str(path) for path in self._paths]
        try:
            value = self._read()
        except FilesError as error:
            if version_of(self._paths) == version:
                self._version = version
                log.error("replaced files cannot be used", files=names, reason=str(error))
            return
        if version_of(self._paths) != version:
            # Replaced one by one: these may not belong together.
            return
        self._generation += 1
        self._version, self._value = version, value
        log.info("replaced files are in use", files=names)


def version_of(paths: Sequence[Path]) -> Version:
    """Differs once a file was written or replaced; links are followed."""
    return tuple(_version(path) for path in paths)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
