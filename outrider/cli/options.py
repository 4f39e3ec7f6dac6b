"""Options that several commands take, each worded once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.drafter import Drafter
from outrider.settings.addresses import check_peer

MAX_UINT32 = 2**32 - 1
MAX_UINT64 = 2**64 - 1


def address_list(text: str) -> list[str]:
    """The addresses of a comma-separated list. Raises ValueError unless each is host:port."""
    return [check_peer(part.strip()) for part in text.split(",")]


def addresses(text: str) -> str:
    """`text` unchanged. Raises typer.BadParameter unless it lists host:port, one or more."""
    try:
        address_list(text)
    except ValueError as error:
        raise typer.BadParameter(f"must be {error}, got {text!r}") from None
    return text


def first_address(text: str) -> str:
    """The first address of a list. Raises typer.BadParameter as `addresses` does."""
    return addresses(text).split(",")[0].strip()


def without_keys(arguments: Sequence[str]) -> list[str]:
    """A command line as it may be written down: the keys in it are left out."""
    told = ["--api-key=…" if word.startswith("--api-key=") else word for word in arguments]
    return ["…" if before == "--api-key" else word for before, word in pairwise(["", *told])]


Address = Annotated[
    str,
    typer.Option(
        envvar="OUTRIDER_ADDRESS",
        metavar="HOST:PORT",
        callback=first_address,
        help="The coordinator to ask; of several, the first.",
    ),
]
Addresses = Annotated[
    str,
    typer.Option(
        envvar="OUTRIDER_ADDRESS",
        metavar="HOST:PORT,...",
        callback=addresses,
        help="The coordinators to ask: when one is lost, the next goes on.",
    ),
]
Patience = Annotated[
    float,
    typer.Option(
        envvar="OUTRIDER_PATIENCE_S",
        metavar="SECONDS",
        min=0,
        help="How long to try again when coordinators are lost or busy.",
    ),
]


def _pem_file(variable: str, purpose: str) -> Any:
    return typer.Option(
        envvar=variable, metavar="FILE", dir_okay=False, exists=True, readable=True, help=purpose
    )


TlsCa = Annotated[
    Path | None,
    _pem_file("OUTRIDER_TLS_CA", "Connect with TLS; this PEM file must have signed the server's."),
]
TlsCert = Annotated[
    Path | None,
    _pem_file("OUTRIDER_TLS_CERT", "PEM file with a certificate for servers that ask for one."),
]
TlsKey = Annotated[
    Path | None,
    _pem_file("OUTRIDER_TLS_KEY", "PEM file with that certificate's private key."),
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="OUTRIDER_API_KEY",
        metavar="KEY",
        help="Key to show to the coordinator. Others on this machine see flags, not the variable.",
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(metavar="0..100", help="Divides the logits; 0 is greedy. Unset: 1."),
]
TopK = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=MAX_UINT32, help="Keep this many most likely tokens; 0 is off."
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(metavar="0..1", help="Keep the most likely tokens up to this mass; 1 is off."),
]
MinP = Annotated[
    float | None,
    typer.Option(metavar="0..1", help="Drop tokens below this share of the most likely one."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=MAX_UINT64, help="Fixes every random draw. Unset: a new one."
    ),
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=MAX_UINT32, help="Most output tokens. Unset: 256 or what is left."
    ),
]
TargetModel = Annotated[
    str,
    typer.Option(metavar="MODEL", help="`embedded`, a folder, a .gguf file or a hub id."),
]
DraftModel = Annotated[
    str,
    typer.Option(metavar="MODEL", help="`embedded`, a folder, a .gguf file or a hub id."),
]
DraftWay = Annotated[
    Drafter | None,
    typer.Option(
        help="Where draft tokens come from: drawn by the model, copied from earlier text, or the "
        "likelier at each place. Unset: the draft's setting, mixed by default.",
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="TYPE", help="Numbers of both models: auto, float64, float32, bfloat16 or float16."
    ),
]
Device = Annotated[
    str | None,
    typer.Option(metavar="DEVICE", help="Where both models run: auto, cpu, mps, cuda or cuda:N."),
]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Processor threads of each model; 0: one per core. Unset: they share the cores.",
    ),
]
