"""Text to a terminal and to a pipe."""

from __future__ import annotations

import io

import pytest

from outrider.cli.terminal import TextOutput


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["a", "b"], "ab\n"),
        (["a\n"], "a\n"),
        ([], ""),
        ([""], ""),
        (["\x1b]0;title\x07", "\x9b31m", "\ttab\n"], "]0;title31m\ttab\n"),
        (["a\r\x08b"], "ab\n"),
    ],
)
def test_a_terminal_is_left_at_the_start_of_a_line(pieces: list[str], shown: str) -> None:
    stream = Terminal()
    output = TextOutput(stream)
    for piece in pieces:
        output.write(piece)
    output.finish()
    assert stream.getvalue() == shown


def test_a_pipe_gets_exactly_the_text() -> None:
    stream = io.StringIO()
    output = TextOutput(stream)
    output.write("\x1b[1ma")
    output.finish()
    assert stream.getvalue() == "\x1b[1ma"
