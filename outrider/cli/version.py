"""`outrider version`: what is installed."""

from __future__ import annotations

import typer

from outrider import PROTOCOL_VERSION, __version__


def version_line() -> str:
    """Version of the software and of the contract it speaks."""
    return f"outrider {__version__} (protocol {PROTOCOL_VERSION})"


def version() -> None:
    """Print the version."""
    typer.echo(version_line())


def print_version_and_leave(wanted: bool) -> None:
    """Callback of the eager option `--version`."""
    if wanted:
        version()
        raise typer.Exit
