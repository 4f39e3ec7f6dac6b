"""Turns: each sends the same requests through every setting, one setting after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.bench.load import Stint
from outrider.bench.setting import Setting


@dataclass(frozen=True, slots=True)
class Turn:
    """The stints of all settings with the same requests."""

    number: int
    stints: tuple[Stint, ...]

    def of(self, setting: Setting) -> Stint:
        """The stint of one setting."""
        return next(stint for stint in self.stints if stint.setting == setting)


def requests_of_turn(number: int, *, concurrency: int) -> range:
    """The numbers of the requests of a turn: the next ones."""
    return range(number * concurrency, (number + 1) * concurrency)


def order_of_turn(number: int, settings: Sequence[Setting]) -> list[Setting]:
    """A-B, B-A, A-B …: no setting always has the machine in the state that the same other one left,
    and a drift of the machine's speed meets all of them alike."""
    order = list(settings)
    return order if number % 2 == 0 else order[::-1]
