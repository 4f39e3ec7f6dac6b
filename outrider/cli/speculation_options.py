"""Options of speculation that several commands take."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from outrider.branch_limits import MOST_BRANCHES
from outrider.cli.options import MAX_UINT32
from outrider.settings import SpeculationChoice

AUTO: Literal["auto"] = "auto"

DraftLengthChoice = int | Literal["auto"]
"""Draft tokens in each round, or chosen by what is measured."""


def draft_length_choice(text: str | None) -> DraftLengthChoice | None:
    """What `--draft-length` or `--copies` says; None when it was not given. Raises ValueError."""
    if text is None or text == AUTO:
        return AUTO if text else None
    length = int(text)
    if not 0 <= length <= MAX_UINT32:
        raise ValueError(text)
    return length


def fixed_length(choice: DraftLengthChoice | None) -> int | None:
    """The number that was chosen, if one was."""
    return None if choice == AUTO else choice


def _auto_or_number(text: str | None) -> str | None:
    try:
        draft_length_choice(text)
    except ValueError:
        raise typer.BadParameter(f"must be auto or a whole number, got {text!r}") from None
    return text


DraftLength = Annotated[
    str | None,
    typer.Option(
        metavar="auto|N",
        callback=_auto_or_number,
        help="Draft tokens in each round; auto: as many as pay. Unset: the coordinator's setting.",
    ),
]
Copies = Annotated[
    str | None,
    typer.Option(
        metavar="auto|N",
        callback=_auto_or_number,
        help="Most tokens copied from earlier text in each round, beyond its draft length; auto: "
        "as many as pay. Unset: the coordinator's setting.",
    ),
]
Speculation = Annotated[
    SpeculationChoice | None,
    typer.Option(
        help="Whether draft tokens are used; auto: as long as they pay. Unset: the coordinator's "
        "setting.",
    ),
]
DraftAhead = Annotated[
    bool | None,
    typer.Option(
        "--draft-ahead/--no-draft-ahead",
        help="Whether the draft goes on while the target verifies. Unset: the coordinator's "
        "setting.",
        show_default=False,
    ),
]
DraftBranches = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=MOST_BRANCHES,
        help="Most side branches for likely corrections. Unset: the coordinator's setting.",
    ),
]
