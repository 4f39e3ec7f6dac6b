"""What the demo says of two runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from outrider.cli.comparison import Comparison, Run, Task, comparison_table
from outrider.v1 import generation_pb2


def run(token_ids: tuple[int, ...], *, rounds: int, decode_ms: float, accepted: int) -> Run:
    stats = generation_pb2.SpeculationStats(
        rounds=rounds,
        draft_tokens=4 * accepted,
        accepted_tokens=accepted,
        mean_output_tokens_per_round=len(token_ids) / rounds,
        decode_ms=decode_ms,
    )
    return Run(token_ids, generation_pb2.GenerationSummary(speculation=stats))


def compare(name: str, ours: tuple[int, ...], theirs: tuple[int, ...], speed: float) -> Comparison:
    with_draft = run(ours, rounds=3, decode_ms=1000 / speed, accepted=2)
    alone = run(theirs, rounds=len(theirs), decode_ms=1000, accepted=0)
    return Comparison(Task(name, "?"), with_draft, alone)


@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        ((1, 2, 3), (1, 2, 3), None),
        ((1, 2, 3), (1, 9, 3), 1),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3), (1, 2), 2),
        ((), (1,), 0),
    ],
)
def test_first_difference(
    ours: tuple[int, ...], theirs: tuple[int, ...], place: int | None
) -> None:
    alone = run((1,), rounds=1, decode_ms=1, accepted=0).summary
    comparison = Comparison(Task("", ""), Run(ours, alone), Run(theirs, alone))
    assert comparison.first_difference == place


def test_table_shows_each_task_and_the_median() -> None:
    five = (1, 2, 3, 4, 5)
    stream = io.StringIO()
    table = comparison_table(
        [
            compare("code", five, five, 3.0),
            compare("story", five, (1, 2, 9, 4, 5), 1.0),
            compare("essay", five, five, 2.0),
        ]
    )
    Console(file=stream, width=160).print(table)
    lines = {line.split()[0]: line for line in stream.getvalue().splitlines() if line.strip()}
    assert "3.00 ×" in lines["code"]
    assert "equal" in lines["code"]
    assert "differ at 3" in lines["story"]
    assert "2.00 ×" in lines["median"]
    assert "25.0 %" in lines["median"]
    assert "8.0" in lines["median"]
    assert "4.0" in lines["median"]


def test_a_run_without_rounds_shows_dashes() -> None:
    nothing = Run((), generation_pb2.GenerationSummary())
    stream = io.StringIO()
    Console(file=stream, width=160).print(
        comparison_table([Comparison(Task("code", "?"), nothing, nothing)])
    )
    assert "–" in stream.getvalue()
