"""Folders that something is to be written into, tried before it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from outrider.distill.errors import DistillError

PROBE = ".probe"
LOCK = ".lock"


def check_writable(folder: Path) -> None:
    """Raises DistillError where nothing can be written into it. Leaves nothing there."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / PROBE
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DistillError(f"{folder}: cannot be written: {error.strerror}") from error
    finally:
        for one in made:
            with suppress(OSError):
                one.rmdir()


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes the folder and keeps other runs out of it. Raises DistillError where one is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(blocking=False)
    except Timeout:
        raise DistillError(f"{folder}: another run is at work there") from None
    except OSError as error:
        raise DistillError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
