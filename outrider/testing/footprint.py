"""What a process takes of the machine, by Linux's own count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one process at one moment."""

    rss_bytes: int
    threads: int
    files: int
    """Open file descriptors, sockets among them."""

    @classmethod
    def of(cls, pid: int) -> Footprint:
        """Raises OSError when there is no such process."""
        folder = Path(f"/proc/{pid}")
        facts = dict(
            line.split(":", 1) for line in (folder / "status").read_text().splitlines() if line
        )
        return cls(
            rss_bytes=int(facts["VmRSS"].split()[0]) * 1024,
            threads=int(facts["Threads"]),
            files=len(list((folder / "fd").iterdir())),
        )
