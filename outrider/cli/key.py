"""`outrider key`: a new key for a client, and the line that lets it in."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.cli.terminal import notice
from outrider.rpc.api_keys import TENANT_FORM, key_line, new_key


def key(
    tenant: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"Whose key it is: {TENANT_FORM}."),
    ],
) -> None:
    """Make a key for a client.

    The key and the line for the coordinator's file of keys go to standard output. Nothing is kept:
    the line holds the key's SHA-256 alone.
    """
    made = new_key()
    try:
        line = key_line(tenant, made)
    except ValueError as error:
        raise typer.BadParameter(f"must be {error}", param_hint="--tenant") from None
    typer.echo(f"key {made}")
    typer.echo(f"line {line}")
    notice("Give the key to its holder now: it cannot be shown again.")
    notice("Add what follows `line` to the file that OUTRIDER_API_KEYS_FILE names.")
