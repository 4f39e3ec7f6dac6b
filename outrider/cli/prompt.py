"""The prompt of a request, from the command line or from standard input."""

from __future__ import annotations

import sys

STANDARD_INPUT = "-"


class PromptError(Exception):
    """The prompt cannot be sent."""


def read_prompt(argument: str) -> str:
    """`argument` itself, or all of standard input less one final newline when it is `-`.

    Raises PromptError when it is not UTF-8.
    """
    if argument == STANDARD_INPUT:
        data = sys.stdin.buffer.read().removesuffix(b"\n")
    else:
        data = argument.encode(errors="surrogateescape")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PromptError(
            f"the prompt is not UTF-8: {error.reason} at byte {error.start}"
        ) from None
