"""Options that only `outrider bench` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.bench.prompts import ALL_KINDS
from outrider.cli.options import MAX_UINT32

DEFAULT_SECONDS = 60.0

Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The coordinator to measure. Unset: a pair is started for it, as by `up`.",
    ),
]
DraftLengths = Annotated[
    str, typer.Option(metavar="auto|N,…", help="What to compare with the target alone.")
]
Drafters = Annotated[
    str,
    typer.Option(
        metavar="WAY[=MODEL],…",
        help="Compare drafts of one target: model, ngram, suffix or mixed, each with --draft-model "
        "or a model of its own.",
    ),
]
Concurrency = Annotated[str, typer.Option(metavar="N,…", help="Generations at once.")]
Kind = Annotated[
    str, typer.Option(metavar="KIND,…", help=f"Built-in prompts: {', '.join(ALL_KINDS)}.")
]
PromptFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.jsonl",
        help='Your prompts, one a line: {"prompt": …} or {"messages": […]}.',
    ),
]
MaxNewTokens = Annotated[
    int, typer.Option(metavar="N", min=2, max=MAX_UINT32, help="Most tokens of an output.")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        min=0.1,
        help=f"For each concurrency, at least. Unset: {DEFAULT_SECONDS:g}, or no limit with "
        "--requests.",
    ),
]
Requests = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="For each concurrency and setting, instead of a time."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="The result; the report goes beside it, .html."),
]
RoundTrips = Annotated[
    str,
    typer.Option(metavar="MS,…", help="Put the draft this far away; several are compared."),
]
Pin = Annotated[
    bool, typer.Option("--pin", help="Give the draft the last core and the target all others.")
]
