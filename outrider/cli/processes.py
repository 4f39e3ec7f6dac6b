"""Child processes: started, listened to and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

LAST_LINES = 20
POLL_S = 0.05


class ChildProcess:
    """One child with a log of its own.

    It is in a process group of its own, so that a Ctrl-C in the terminal reaches the parent alone,
    which stops the children in order. Its standard input is a lifeline (see `lifeline.py`).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_file: Path,
        on_line: Callable[[str, str], None],
        environment: Mapping[str, str],
        cpus: frozenset[int] = frozenset(),
    ) -> None:
        """Starts it. `on_line(name, line)` hears every line of its output, on a thread of its own.

        `cpus` are the only cores it may use; empty: all. Raises OSError when it cannot start.
        """
        self.name = name
        self.log_file = log_file
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )
        if cpus:
            os.sched_setaffinity(self._process.pid, cpus)
        self._listener = threading.Thread(target=self._listen, name=f"{name}-log", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """It has ended, by itself or not."""
        return self._process.poll() is not None

    @property
    def ending(self) -> str:
        """How it ended, in words. Only once it has."""
        code = self._process.wait()
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    @property
    def last_lines(self) -> list[str]:
        """The end of its output; complete once it has ended."""
        if self.ended:
            self._listener.join(timeout=1.0)
        return list(self._lines)

    def terminate(self) -> None:
        """Asks it to stop. Harmless once it has ended."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends it by force. Harmless once it has ended."""
        self._process.kill()

    def close(self) -> None:
        """Frees what is left of an ended process."""
        self._process.wait()
        self._listener.join(timeout=1.0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        with self.log_file.open("wb") as log:
            for raw in self._process.stdout:
                log.write(raw)
                log.flush()
                line = raw.decode(errors="replace").rstrip("\r\n")
                self._lines.append(line)
                self._on_line(self.name, line)


def stop_all(children: Iterable[ChildProcess], *, grace_s: float) -> None:
    """Stops children in the given order of asking, all at once, and waits for them.

    Those that take longer than `grace_s`, or whose stop is interrupted by Ctrl-C, are killed.
    """
    children = list(children)
    try:
        for child in children:
            child.terminate()
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and not all(child.ended for child in children):
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        pass
    finally:
        for child in children:
            child.kill()
            child.close()
