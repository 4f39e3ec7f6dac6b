"""Pauses before the next attempt."""

from __future__ import annotations

from coordinator.backoff import FIRST_S, LONGEST_S, Backoff


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pause_s(self, pauses: Backoff) -> float:
        """How long until the next attempt; it is over then."""
        since = self.now
        while not pauses.over:
            self.now += FIRST_S / 2
        return self.now - since


def test_pauses_double_up_to_the_longest() -> None:
    clock = Clock()
    pauses = Backoff(clock)
    seen = []
    for _ in range(8):
        pauses.failed()
        seen.append(clock.pause_s(pauses))
    assert seen[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S]
    assert seen[-1] == LONGEST_S


def test_failures_within_one_pause_count_once() -> None:
    clock = Clock()
    pauses = Backoff(clock)
    for _ in range(8):
        pauses.failed()
    assert clock.pause_s(pauses) == FIRST_S
    pauses.failed()
    assert clock.pause_s(pauses) == 2 * FIRST_S


def test_a_success_ends_the_pause() -> None:
    clock = Clock()
    pauses = Backoff(clock)
    for _ in range(3):
        pauses.failed()
        clock.pause_s(pauses)
    pauses.failed()
    pauses.succeeded()
    assert pauses.over
    pauses.failed()
    assert clock.pause_s(pauses) == FIRST_S
