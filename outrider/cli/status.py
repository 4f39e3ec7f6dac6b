"""`outrider status`: pools, models, memory, load and acceptance at this moment."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from outrider.cli import options
from outrider.cli.load_tables import load_tables
from outrider.cli.plain import plain
from outrider.cli.tables import coordinator_line, policy_table, worker_table
from outrider.cli.terminal import answers, fail
from outrider.client import DEFAULT_ADDRESS, Client, ClientError
from outrider.rpc.tls import TlsFiles


def status(
    address: options.Address = DEFAULT_ADDRESS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    api_key: options.ApiKey = None,
) -> None:
    """Show pools, models, memory, load and acceptance."""
    try:
        tls = TlsFiles(tls_cert, tls_key, tls_ca)
        with Client(address, tls=tls, api_key=api_key) as client:
            state = client.status()
    except ClientError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps(plain(state), ensure_ascii=False))
        return
    console = answers()
    console.print(coordinator_line(address, state))
    console.print(worker_table(state))
    if state.HasField("policy"):
        console.print(policy_table(state.policy))
    for table in load_tables(state, width=console.width):
        console.print(table)
