"""One moving bar on a terminal, with lines above it. On standard error."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from outrider.cli.terminal import notice, notices

BAR_WIDTH = 24


class MovingBar:
    """Elsewhere than on a terminal there are only the lines."""

    def __init__(self, description: str) -> None:
        console = notices()
        self.on_terminal = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(BAR_WIDTH),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task(description, total=1.0)

    @property
    def shown(self) -> AbstractContextManager[Any]:
        """While it is to be seen."""
        return self._progress if self.on_terminal else nullcontext()

    def move(self, description: str, *, completed: float | None = None, total: float = 1.0) -> None:
        """So much of `total` is done; None: as much as before."""
        self._progress.update(self._task, description=description, completed=completed, total=total)

    def begin(self, description: str, *, total: float) -> None:
        """Another piece of work, whose speed says nothing of the one before."""
        self._progress.reset(self._task, total=total, description=description)

    def say(self, line: str) -> None:
        """A line that stays, whatever characters it has."""
        if self.on_terminal:
            self._progress.console.print(Text(line))
        else:
            notice(line)
