"""Folders that something is to be written into, tried before it is made."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from outrider.distill.errors import DistillError


def check_writable(folder: Path) -> None:
    """Raises DistillError where nothing can be written into it. Leaves nothing there."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DistillError(f"{folder}: cannot be written: {error.strerror}") from error
    finally:
        for one in made:
            with suppress(OSError):
                one.rmdir()
