"""Signals that ask a command to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does. Main thread only."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
