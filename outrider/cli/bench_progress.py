"""Shows how far a benchmark is. On standard error."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from outrider.bench.cell import Place
from outrider.bench.finding import where
from outrider.bench.setting import Setting
from outrider.cli.moving_bar import MovingBar


class BenchProgress:
    """One moving bar on a terminal; elsewhere a plain line for each place."""

    def __init__(self) -> None:
        self._bar = MovingBar("measuring")

    @property
    def shown(self) -> AbstractContextManager[Any]:
        """While it is to be seen."""
        return self._bar.shown

    def place_begins(self, place: Place) -> None:
        """A place's warm-up begins."""
        if self._bar.on_terminal:
            self._bar.move(f"{where(place)}: warming up")
        else:
            self._bar.say(f"Measuring {where(place)} …")

    def stint_begins(self, place: Place, setting: Setting, *, share: float) -> None:
        """A setting is about to be measured."""
        self._bar.move(f"{where(place)}: {setting.name}", completed=share)
