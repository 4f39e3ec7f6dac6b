"""How a parent process learns that a child is ready, and on which port.

The child is given `OUTRIDER_READY_FILE`; once it is SERVING it writes its address there, whole or
not at all.
"""

from __future__ import annotations

import os
from pathlib import Path


def announce(address: str, ready_file: Path | None) -> None:
    """Writes `address` and a line end to the file, if there is one to write."""
    if ready_file is None:
        return
    draft = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    draft.write_text(address + "\n")
    draft.replace(ready_file)


def announced(ready_file: Path) -> str | None:
    """The address a child has written; None until then."""
    try:
        return ready_file.read_text().strip() or None
    except FileNotFoundError:
        return None
