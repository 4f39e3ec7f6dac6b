"""What the commands share in talking to a person: exit codes, notices and streamed text."""

from __future__ import annotations

import os
import sys
from enum import IntEnum
from typing import NoReturn, TextIO

import typer
from rich.console import Console


class ExitCode(IntEnum):
    """How a command ended; listed in `outrider --help`."""

    OK = 0
    FAILED = 1
    """A server refused the request, failed or was not reached; or a child process failed."""
    USAGE = 2
    """Flags or settings are wrong; nothing was started or sent."""
    INTERRUPTED = 130
    """Ctrl-C, the call was cancelled."""
    BROKEN_PIPE = 141
    """The reader of standard output went away."""


TAB, NEWLINE = 0x09, 0x0A
TERMINAL_CONTROLS = {
    code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (TAB, NEWLINE)
}
"""Characters that steer a terminal; a model's output must not."""

WIDTH_WITHOUT_TERMINAL = 120


def answers() -> Console:
    """Standard output for tables; plain text when it is no terminal."""
    return _console(sys.stdout)


def notices() -> Console:
    """Standard error for everything that is not the answer."""
    return _console(sys.stderr)


def notice(message: str) -> None:
    """Prints one line to standard error, as it stands."""
    print(message.translate(TERMINAL_CONTROLS), file=sys.stderr, flush=True)


def fail(message: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
    """Prints the fault to standard error and ends the command."""
    notice(f"outrider: {message}")
    raise typer.Exit(code)


def leave_broken_pipe() -> NoReturn:
    """Ends the command without a word after the reader of standard output went away.

    Standard output is pointed elsewhere first: the interpreter flushes it once more at its end and
    would complain there.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    raise typer.Exit(ExitCode.BROKEN_PIPE)


class TextOutput:
    """Streams generated text to standard output: as it comes, and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._on_terminal = stream.isatty()
        self._last = ""

    def write(self, text: str) -> None:
        """Shows text at once. A terminal is spared control characters, other readers get all."""
        if self._on_terminal:
            text = text.translate(TERMINAL_CONTROLS)
        if text:
            self._last = text[-1]
            self._stream.write(text)
            self._stream.flush()

    def finish(self) -> None:
        """On a terminal, ends the last line if the text has not."""
        if self._on_terminal and self._last not in ("", "\n"):
            self._stream.write("\n")
            self._stream.flush()


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, markup=False)
