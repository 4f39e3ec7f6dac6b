"""The page that comes with a draft: what it is, how it was made, what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.cli.figures import number
from outrider.distill.curve import Point
from outrider.distill.trials import Tried
from outrider.distill.trying import Verified, VerifiedBothWays


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """All that the page tells. Shares are 0 to 1."""

    target: str
    target_digest: str
    layers: Sequence[int]
    target_layers: int
    parameters: int
    vocabulary: int
    covered: float
    loss: str
    lessons: int
    places: int
    points: Sequence[Point]
    tried: Sequence[Tried]
    real: VerifiedBothWays
    seed: int
    learning_rate: float
    batch_tokens: int


def card(facts: CardFacts) -> str:
    """Markdown."""
    last = facts.points[-1]
    layers = (
        f"Layers {_listed(facts.layers)} of the target's {facts.target_layers}"
        if facts.layers
        else "The layers of the draft that was begun from"
    )
    parts = [
        f"# A draft for {facts.target}",
        f"Made by `outrider distill`. {layers}, taught to say what the target says; embedding and "
        f"head are the target's own. {facts.parameters:,} weights were taught. It "
        f"proposes from {facts.vocabulary} ids, which are {facts.covered:.2%} of what the target "
        f"says on held-out text. Output stays the target's, whatever the draft proposes.",
        "## What it is worth",
        "Real generations on held-out prompts, every draft token verified, four in a round:",
        _table(
            ("", "acceptance", "by place", "output tokens per round"),
            [_trial("greedy", facts.real.greedy), _trial("temperature 1", facts.real.drawn)],
        ),
        "Held-out texts, each place seen with the text before it: "
        f"the most likely token is the target's at {last.judgement.greedy.agreement:.1%} of the "
        f"places that it wrote greedily and at {last.judgement.drawn.agreement:.1%} of those it "
        f"drew; Σ min(p, q) is {last.judgement.drawn.overlap:.3f}.",
        "## How it was made",
        f"- Lessons: {facts.lessons} texts, the target's law at {facts.places} places.\n"
        f"- {last.tokens} tokens were learnt from, {facts.batch_tokens} at a time; loss "
        f"{facts.loss}; Muon, learning rate {facts.learning_rate:g}; seed {facts.seed}.\n"
        f"- Weights digest of the target: `{facts.target_digest}`.",
    ]
    if facts.tried:
        parts += [
            "Short teachings that chose layers and loss:",
            _table(
                ("layers", "loss", "greedy agreement", "overlap", "score"),
                [_tried(one) for one in facts.tried],
            ),
        ]
    parts += [
        "## Curve",
        _table(
            ("tokens", "loss", "greedy agreement", "overlap", "score"),
            [_point(point) for point in facts.points],
        ),
        "*Agreement* is of texts written greedily, *overlap* Σ min(p, q) of texts drawn at "
        "temperature 1, *score* the mean output tokens of a round of four draft tokens over both.",
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _trial(name: str, trial: Verified) -> Sequence[str]:
    places = ", ".join(f"{share:.2f}" for share in trial.by_place)
    return (name, f"{trial.acceptance:.3f}", places, f"{trial.tokens_per_round:.2f}")


def _tried(one: Tried) -> Sequence[str]:
    judged = one.judgement
    layers = _listed(one.layers) or "as begun"
    return (
        layers,
        one.loss,
        *_figures(judged.greedy.agreement, judged.drawn.overlap, judged.score),
    )


def _point(point: Point) -> Sequence[str]:
    judged = point.judgement
    figures = _figures(judged.greedy.agreement, judged.drawn.overlap, judged.score)
    return (str(point.tokens), number(point.loss, digits=3), *figures)


def _figures(*values: float) -> Sequence[str]:
    return [f"{value:.3f}" for value in values]


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers))
