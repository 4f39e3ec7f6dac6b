"""The `outrider` command: its commands and their order in the help."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.cli import serve
from outrider.cli.bench import bench
from outrider.cli.demo import demo
from outrider.cli.distill import distill
from outrider.cli.generate import generate
from outrider.cli.key import key
from outrider.cli.status import status
from outrider.cli.up import up
from outrider.cli.version import print_version_and_leave, version

EXIT_CODES = (
    "Exit codes: 0 done; 1 a server refused, failed or was not reached, or a service of ours "
    "died; 2 wrong flags or settings; 130 interrupted; 141 the reader of the output went away."
)

app = typer.Typer(
    name="outrider",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
    help="Exact speculative decoding as a distributed service.",
)


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version_and_leave,
            is_eager=True,
            help="Print the version and leave.",
        ),
    ] = False,
) -> None:
    """Exact speculative decoding as a distributed service."""


app.add_typer(serve.app, name="serve")
app.command()(up)
app.command()(generate)
app.command()(demo)
app.command()(bench)
app.command()(distill)
app.command()(status)
app.command()(key)
app.command()(version)


def main() -> None:
    """Runs the command that the arguments name."""
    app()
