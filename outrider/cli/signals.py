"""Signals that ask a command to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


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


class StopRequest:
    """Takes the signals above for itself: they ask, and interrupt nothing.

    For work that is to be wound up, not broken off: a second signal, which many senders add, does
    no harm. A context manager. Main thread only.
    """

    def __init__(self) -> None:
        self.made = False
        """A signal has come."""
        self._on_request: Callable[[], None] = _nothing
        self._before: dict[int, Any] = {}

    def tell(self, on_request: Callable[[], None]) -> None:
        """From now on `on_request` hears of each signal, on the main thread, at any moment."""
        self._on_request = on_request
        if self.made:
            on_request()

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.made = True
        self._on_request()


def _nothing() -> None:
    """Nobody listens yet."""
