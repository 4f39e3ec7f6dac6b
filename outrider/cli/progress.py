"""Shows how far services are while their models load. On standard error."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from outrider.cli.terminal import TERMINAL_CONTROLS, notice, notices

FIRST_START = "the first start of the embedded pair assembles it, which takes about a minute"


LOG_PREFIX = re.compile(r"^\S+Z \[\w+\s*\] ")
"""Time and level of a log line, which a moving line has no room for."""
SPINNER_WIDTH = 4


class StartProgress:
    """One moving line on a terminal; elsewhere a plain line for each event."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        console = notices()
        self._status = Status("", console=console)
        self._on_terminal = console.is_terminal

    def starting(self, name: str) -> None:
        """A service has been started."""
        self._waiting.append(name)
        self._show()

    def line(self, name: str, text: str) -> None:
        """A service has said something: of interest while it is not ready."""
        if name in self._waiting:
            self._show(text)

    def ready(self, name: str, address: str, seconds: float) -> None:
        """A service serves."""
        self._waiting.remove(name)
        self._say(f"{name} serves at {address} after {seconds:.1f} s")
        self._show()

    def _say(self, message: str) -> None:
        if self._on_terminal:
            self._status.console.print(Text(message))
        else:
            notice(message)

    def _show(self, text: str = "") -> None:
        what = f"waiting for {', '.join(self._waiting)}" if self._waiting else "starting"
        said = " ".join(LOG_PREFIX.sub("", text.translate(TERMINAL_CONTROLS)).split())
        line = Text(f"{what} … {said}")
        line.truncate(self._status.console.width - SPINNER_WIDTH, overflow="ellipsis")
        self._status.update(line)

    def __enter__(self) -> Self:
        self._say(f"Starting ({FIRST_START}).")
        if self._on_terminal:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._status.stop()


class EchoingProgress(StartProgress):
    """Shows every line of every service too, with its name before it."""

    def line(self, name: str, text: str) -> None:
        """Prints the line."""
        self._say(f"{name:11} | {text}".translate(TERMINAL_CONTROLS))
