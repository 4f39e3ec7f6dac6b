"""The figures of the report as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from outrider.bench.cell import Cell
from outrider.bench.finding import Finding, interval, where
from outrider.bench.page.elements import facts, heading, paragraph, row, table, wide_row
from outrider.bench.result import Result
from outrider.bench.statistics import Spread
from outrider.cli.figures import NOTHING, number, percent, signed, size

HEADINGS = (
    "",
    "tokens/s",
    "speed",
    "tokens per round",
    "acceptance",
    "first token p50",
    "answer p50",
    "p95",
    "token gap p50",
    "p95",
    "p99",
    "chunk gap p50",
    "p99",
    "equal outputs",
)
EVEN_HEADINGS = (
    "",
    "tokens per round",
    "a round takes",
    "verification",
    "draft wait",
    "hops",
    "queues",
    "speed follows",
    "acceptance",
    "needed",
)
DRAFT_HEADINGS = (
    "",
    "rounds with draft tokens",
    "draft tokens in them",
    "copied",
    "of these accepted",
    "were waiting",
    "correction foreseen",
    "went without",
    "dropped tokens",
    "draft busy",
    "bytes per round",
    "changes, by reason",
)
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
"""What a benchmark may say of it, beside the rule of verification."""
NO_RULE = "unspecified"


def tables(result: Result) -> Iterator[str]:
    """All figures, the break-even arithmetic and the memory."""
    yield heading("All figures")
    yield paragraph("Times in milliseconds. Gaps between tokens are 0 within a chunk.", "soft")
    yield table(HEADINGS, _figure_rows(result))
    yield heading("The break-even arithmetic")
    yield paragraph(
        "Speculation pays where a round brings more output tokens than it takes steps of the "
        "target alone: tokens per round > 1 + relative overhead of drafting and hops. A round's "
        "time is given in such steps, and what it takes beyond one by cause."
    )
    yield table(EVEN_HEADINGS, (_even_row(one) for one in result.findings))
    for finding in result.findings:
        yield paragraph(f"{finding.headline[0].upper()}{finding.headline[1:]}.")
        if finding.arithmetic:
            yield paragraph(finding.arithmetic, "soft")
    yield heading("What the draft did")
    yield table(DRAFT_HEADINGS, (_draft_row(one) for one in result.cells if one.versus))
    yield heading("Memory")
    yield table(
        ("pool", "model", "numbers", "device", "weights", "KV pool"),
        (
            row(
                (
                    one.pool,
                    one.model,
                    one.dtype,
                    one.device,
                    size(one.weights_bytes),
                    size(one.kv_pool_bytes),
                )
            )
            for one in result.subject.workers
        ),
    )


def terms(result: Result) -> Iterator[str]:
    """How it was measured."""
    yield heading("How it was measured")
    yield paragraph(
        "In turns: each sends the same requests through every setting, one setting after the "
        "other, in reversed order every other turn, at a constant number of generations at once. "
        "Every prompt had been read before, so that no setting pays for another's prefix cache. "
        "Intervals are percentile bootstraps of medians over turns."
    )
    yield facts(
        (
            ("command", result.terms.command),
            ("made at", result.terms.made_at),
            ("coordinator", f"{result.subject.coordinator}, {result.subject.build_version}"),
            ("client", result.subject.client),
            ("prompts", result.terms.prompts),
            ("sampling", _sampling(result.terms.sampling)),
            ("most output tokens", str(result.terms.max_new_tokens)),
            ("requests", str(sum(one.requests for one in result.cells))),
        )
    )


def _sampling(given: Mapping[str, Any]) -> str:
    """What requests said of their sampling."""
    said = [f"{name} {given[name]}" for name in SAMPLING if given.get(name) is not None]
    rule = given.get("verification", NO_RULE)
    return ", ".join([*said, f"verification {'auto' if rule == NO_RULE else rule}"])


def _figure_rows(result: Result) -> Iterator[str]:
    for place, group in groupby(result.cells, key=lambda one: one.place):
        yield wide_row(where(place).capitalize(), columns=len(HEADINGS))
        for one in group:
            yield row(_figures(one))


def _figures(one: Cell) -> Iterator[str]:
    yield one.setting
    yield number(one.tokens_per_s.median)
    yield interval(one.versus.speed) if one.versus else NOTHING
    yield number(one.rounds.tokens_per_round, digits=2)
    yield percent(one.rounds.acceptance)
    yield _whole(one.first_token_ms, "p50")
    for name in ("p50", "p95"):
        yield _whole(one.latency_ms, name)
    for name in ("p50", "p95", "p99"):
        yield _whole(one.token_gap_ms, name)
    for name in ("p50", "p99"):
        yield _whole(one.chunk_gap_ms, name)
    yield f"{one.versus.equal_outputs} of {one.versus.outputs}" if one.versus else NOTHING


def _even_row(finding: Finding) -> str:
    even = finding.break_even
    name = f"{where(finding.place)}, {finding.setting}"
    if even is None:
        return row((name, *(NOTHING for _ in EVEN_HEADINGS[1:])))
    over = even.overhead
    parts = (over.verify, over.draft_wait, over.hop, over.queue)
    return row(
        (
            name,
            number(even.tokens_per_round, digits=2),
            f"{even.round_steps:.2f} steps",
            *(signed(part) for part in parts),
            f"{even.speed:.2f} ×",
            percent(even.acceptance),
            percent(even.needed_acceptance),
        )
    )


def _draft_row(one: Cell) -> str:
    rounds = one.rounds
    changes = ", ".join(f"{word} {count}" for word, count in sorted(rounds.changes.items()))
    return row(
        (
            f"{where(one.place)}, {one.setting}",
            percent(rounds.share_of_rounds(rounds.drafted_rounds)),
            number(rounds.mean_draft_length),
            percent(rounds.copied_share),
            percent(rounds.copied_acceptance),
            percent(rounds.share_of_rounds(rounds.ready_rounds)),
            percent(rounds.share_of_rounds(rounds.foreseen_rounds)),
            percent(rounds.share_of_rounds(rounds.missed_rounds)),
            str(rounds.dropped_tokens),
            percent(rounds.draft_busy),
            number(rounds.bytes_per_round, digits=0),
            changes or NOTHING,
        )
    )


def _whole(times: Spread | None, name: str) -> str:
    return number(None if times is None else getattr(times, name), digits=0)
