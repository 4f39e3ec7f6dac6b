"""Virtual time, and processes that wait in it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator
from itertools import count
from typing import TypeAlias

Process: TypeAlias = "Generator[Wait, None, None]"


class Signal:
    """Something that processes wait for; each of them is woken once."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def fire(self) -> None:
        """Wakes all who wait."""
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def add(self, wake: Callable[[], None]) -> None:
        """`wake` is called at the next firing."""
        self._waiting.append(wake)


class Wait:
    """What a process yields: it goes on when the signal fires or the time is over."""

    __slots__ = ("seconds", "signal")

    def __init__(self, seconds: float = math.inf, signal: Signal | None = None) -> None:
        self.seconds = seconds
        self.signal = signal


class VirtualClock:
    """Runs what is to happen, in order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def __call__(self) -> float:
        """Seconds since the beginning."""
        return self.now

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` so many seconds from now."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), action))

    def start(self, process: Process) -> None:
        """Begins a process now."""
        self.later(0.0, lambda: self._go_on(process))

    def run(self, until: float) -> None:
        """Lets everything happen up to that time."""
        while self._due and self._due[0][0] <= until:
            self.now, _, action = heapq.heappop(self._due)
            action()
        self.now = until

    def _go_on(self, process: Process) -> None:
        wait = next(process, None)
        if wait is None:
            return
        woken = False

        def wake() -> None:
            nonlocal woken
            if not woken:
                woken = True
                self._go_on(process)

        if wait.signal is not None:
            wait.signal.add(wake)
        if wait.seconds < math.inf:
            self.later(wait.seconds, wake)
