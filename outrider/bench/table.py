"""The result on a terminal, readable at 80 columns. The report has more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from outrider.bench.cell import Cell
from outrider.bench.finding import Finding, at_once
from outrider.bench.result import Result
from outrider.bench.statistics import Estimate, Spread
from outrider.bench.subject import Subject
from outrider.cli.figures import NOTHING, number, percent, signed, size

COLUMNS = (
    "ms",
    "tokens\n/s",
    "speed\n(95 %)",
    "tokens\n/round",
    "accep-\ntance",
    "first\ntoken",
    "latency\np50",
    "gap\np99",
)
EVEN_COLUMNS = (
    "steps",
    "brings\ntokens",
    "takes\nsteps",
    "for\nrows",
    "draft\nwait",
    "hops",
    "queues",
    "speed",
    "needs\naccep.",
)


def report(result: Result) -> Iterator[RenderableType]:
    """Tables and paragraphs in the order to read them."""
    yield memory_table(result.subject)
    for advice in result.advice:
        away = advice.round_trip_ms
        if away is not None:
            yield Text(f"Draft {away:g} ms away", style="bold")
        yield figures_table([one for one in result.cells if one.place.round_trip_ms == away])
        findings = [one for one in result.findings if one.place.round_trip_ms == away]
        yield break_even_table(findings)
        judged = next(one for one in findings if one.setting == advice.judged)
        yield Text(f"{judged.headline}. {judged.arithmetic}")
        yield Text(f"\n{advice.summary}", style="bold")
        if advice.environment:
            yield Text(f"Set {advice.environment}")
        yield Text("")


def figures_table(cells: Sequence[Cell]) -> Table:
    """A row for each setting, those of one load together. Cells of one round trip."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for load, group in groupby(cells, key=lambda one: one.place.concurrency):
        table.add_row(Text(at_once(load), style="bold"))
        for one in group:
            table.add_row(*(Text(word) for word in _words(one)))
    return table


def break_even_table(findings: Sequence[Finding]) -> Table:
    """What a round brings and takes, in steps of the target alone. Findings of one round trip."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, column in enumerate(EVEN_COLUMNS):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    for load, group in groupby(findings, key=lambda one: one.place.concurrency):
        table.add_row(Text(at_once(load), style="bold"))
        for one in group:
            table.add_row(*(Text(word) for word in _even_words(one)))
    return table


def memory_table(subject: Subject) -> Table:
    """What each model takes."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("pool", "model", "numbers", "device", "weights", "KV pool"):
        table.add_column(column, overflow="fold")
    for one in subject.workers:
        words = (
            one.pool,
            one.model,
            one.dtype,
            one.device,
            size(one.weights_bytes),
            size(one.kv_pool_bytes),
        )
        table.add_row(*(Text(word) for word in words))
    return table


def _words(one: Cell) -> Iterator[str]:
    yield f" {one.setting}"
    yield number(one.tokens_per_s.median)
    yield _speed(one.versus.speed) if one.versus else NOTHING
    yield number(one.rounds.tokens_per_round, digits=2)
    yield percent(one.rounds.acceptance).replace(" ", "")
    yield _whole(one.first_token_ms, "p50")
    yield _whole(one.latency_ms, "p50")
    yield _whole(one.token_gap_ms, "p99")


def _even_words(one: Finding) -> Iterator[str]:
    yield f" {one.setting}"
    even = one.break_even
    if even is None:
        return
    yield f"{even.tokens_per_round:.2f}"
    yield f"{even.round_steps:.2f}"
    over = even.overhead
    for part in (over.verify, over.draft_wait, over.hop, over.queue):
        yield signed(part)
    yield f"{even.speed:.2f} ×"
    yield percent(even.needed_acceptance).replace(" ", "")


def _speed(speed: Estimate) -> str:
    if speed.low is None or speed.high is None:
        return f"{speed.median:.2f}"
    return f"{speed.median:.2f} ({speed.low:.2f}–{speed.high:.2f})"


def _whole(times: Spread | None, name: str) -> str:
    return number(None if times is None else getattr(times, name), digits=0)
