"""The options of `outrider distill`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

WHAT, HOW, ENGINE = "What is learnt", "How", "Engine"


def layers_of(text: str) -> int | tuple[int, ...]:
    """`5`: how many layers; `0,1,2,28,29`: which. Raises typer.BadParameter."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise typer.BadParameter(
            f"must be a number of layers, or the layers with commas between them, got {text!r}",
            param_hint="--layers",
        )
    numbers = tuple(map(int, words))
    if len(numbers) == 1 and "," not in text:
        if numbers[0] < 1:
            raise typer.BadParameter("must be at least 1", param_hint="--layers")
        return numbers[0]
    return numbers


Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where the draft is put when it is done.")
]
Work = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Texts and checkpoints; the same command goes on from there. [default: OUT-work]",
    ),
]
Target = Annotated[
    str,
    typer.Option(metavar="MODEL", help="A folder, a .gguf file, a hub id, or `embedded`."),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Prompts that the target answers: JSONL of {"prompt": …} or {"messages": […]}.',
        rich_help_panel=WHAT,
    ),
]
HeldOut = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Prompts that the draft is judged by, never taught. [default: a part of --prompts]",
        rich_help_panel=WHAT,
    ),
]
HeldOutTexts = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="How many are held out, at most, where --held-out names none.",
        rich_help_panel=WHAT,
    ),
]
Text = Annotated[
    list[Path] | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help="Plain text of your own to learn from; may be given several times.",
        rich_help_panel=WHAT,
    ),
]
OwnTurns = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="0..1",
        help="Share of the texts whose prompt the target writes too; all where there are none.",
        rich_help_panel=WHAT,
    ),
]
WrittenTokens = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Tokens of answers that the target writes.", rich_help_panel=WHAT
    ),
]
Longest = Annotated[
    int,
    typer.Option(min=8, metavar="N", help="Longest answer, in tokens.", rich_help_panel=WHAT),
]
Layers = Annotated[
    str,
    typer.Option(
        metavar="N|LIST",
        help="How many of the target's layers: which is found out; or which, as 0,1,2,28,29.",
        rich_help_panel=HOW,
    ),
]
BeginFrom = Annotated[
    Path | None,
    typer.Option(
        metavar="MODEL",
        help="A draft to go on from, instead of layers of the target: a folder, a hub id, or "
        "`embedded`.",
        rich_help_panel=HOW,
    ),
]
Vocabulary = Annotated[
    int,
    typer.Option(
        min=16, metavar="N", help="Most frequent ids that the draft has.", rich_help_panel=HOW
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        metavar="LOSS",
        help="forward-kl, reverse-kl, total-variation, or auto: the best of a short trial.",
        rich_help_panel=HOW,
    ),
]
Tokens = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Tokens that are learnt from in all.", rich_help_panel=HOW
    ),
]
TrialTokens = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Tokens of each short trial.", rich_help_panel=HOW),
]
BatchTokens = Annotated[
    int, typer.Option(min=16, metavar="N", help="Tokens of each step.", rich_help_panel=HOW)
]
LearningRate = Annotated[
    float, typer.Option(min=0.0, metavar="RATE", help="Of the largest steps.", rich_help_panel=HOW)
]
JudgeEvery = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Tokens between two looks at held-out text.", rich_help_panel=HOW
    ),
]
VerifyEvery = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Tokens between two rows of real generations with the draft.",
        rich_help_panel=HOW,
    ),
]
VerifyPrompts = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Held-out prompts of those generations.",
        rich_help_panel=HOW,
    ),
]
VerifyTokens = Annotated[
    int,
    typer.Option(
        min=8, metavar="N", help="Output tokens of each of them, at most.", rich_help_panel=HOW
    ),
]
SideBySide = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="Texts that the target writes at once; four times as many are a part on disk.",
        rich_help_panel=ENGINE,
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Fixes every choice.")]
