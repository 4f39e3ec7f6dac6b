"""Many generations at once, where each row slows down all: auto against the best common k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.emulated_pair import ForwardTimes, PairTimes, running_emulated
from benchmarks.results import Row
from benchmarks.speculation import EmulatedLoad, compete, rate, ratios, round_words
from benchmarks.ways import AUTO, OFF, fixed
from outrider.testing.emulated import Agreement

COUNT = 64
ACCEPTANCE = 0.5
DRAFT_LENGTHS = (1, 2, 3)
OUTPUT_TOKENS = 40
BAR = "≥ 0.95"
DEAR_ROWS = PairTimes(
    target=ForwardTimes(step_s=0.150, row_s=0.00075),
    draft=ForwardTimes(step_s=0.010, row_s=0.0001),
)
"""Computing takes as long as reading from 200 rows on, so a row is dear for 64 generations: on
paper k = 1 gives 390 tokens/s, k = 2 380, k = 0 and k = 3 323 and 342. All is slow enough for the
Python around it to matter little."""


def measure(
    *,
    count: int = COUNT,
    draft_lengths: Sequence[int] = DRAFT_LENGTHS,
    runs: int = 3,
    output_tokens: int = OUTPUT_TOKENS,
    times: PairTimes = DEAR_ROWS,
) -> Iterator[Row]:
    """The row `price_64`."""
    load = EmulatedLoad(
        agreement=Agreement(acceptance=ACCEPTANCE), count=count, output_tokens=output_tokens
    )
    common = {"k = 0": OFF, **{f"k = {length}": fixed(length) for length in draft_lengths}}
    with running_emulated(times) as pair:
        compete(pair.coordinator, {"auto": AUTO}, load, runs=1, first_edition=0)
        found = compete(pair.coordinator, {"auto": AUTO, **common}, load, runs=runs)
    best = max(common, key=lambda way: rate(found[way]))
    each = ratios(found["auto"], found[best])
    others = ", ".join(f"{way} {rate(found[way]):.0f}" for way in common)
    yield Row(
        f"price_{count}",
        rate(found["auto"]),
        "tokens/s",
        len(each),
        ratio=median(each),
        against=f"the best common k, {best}, {rate(found[best]):.1f} tokens/s",
        bar=BAR,
        note=f"ratios {min(each):.2f} to {max(each):.2f}; tokens/s: {others}; "
        f"{round_words(found['auto'])}; {count} generations at once, greedy, acceptance "
        f"{ACCEPTANCE:g}; {times.words}; {output_tokens} tokens each",
    )
