"""Shows how far a benchmark is. On standard error."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from outrider.bench.cell import Place
from outrider.bench.finding import where
from outrider.bench.setting import Setting
from outrider.cli.terminal import notice, notices

BAR_WIDTH = 24


class BenchProgress:
    """One moving bar on a terminal; elsewhere a plain line for each place."""

    def __init__(self) -> None:
        console = notices()
        self._on_terminal = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_WIDTH),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("measuring", total=1.0)

    def place_begins(self, place: Place) -> None:
        """A place's warm-up begins."""
        if self._on_terminal:
            self._progress.update(self._task, description=f"{where(place)}: warming up")
        else:
            notice(f"Measuring {where(place)} …")

    def stint_begins(self, place: Place, setting: Setting, *, share: float) -> None:
        """A setting is about to be measured."""
        self._progress.update(
            self._task, description=f"{where(place)}: {setting.name}", completed=share
        )

    def __enter__(self) -> Self:
        if self._on_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._on_terminal:
            self._progress.stop()
