"""Ways to draft for the embedded target, kind of task by kind of task, against the target alone.

Real processes: the target has a core, drafts, coordinators and the client share the other one.
Every setting answers the same prompts, in turns, one generation at a time.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from statistics import fmean

from benchmarks.bootstrap import geometric_mean
from benchmarks.results import Row
from outrider.bench.cell import Cell, Place
from outrider.bench.load import Load
from outrider.bench.measurement import Measurements
from outrider.bench.measurement import measure as measure_all
from outrider.bench.plan import BenchPlan, Budget
from outrider.bench.prompts import ALL_KINDS, EDITING, KINDS, Prompt, built_in
from outrider.bench.setting import Setting, parse_settings, with_drafters
from outrider.cli.bench_subject import BenchSubject, own_pair, ready_state
from outrider.cli.pair import ComparedDraft, PairOptions, usable_cores
from outrider.client import Client
from outrider.drafter import Drafter
from outrider.rpc.channel import open_channel
from outrider.v1 import common_pb2, generation_pb2_grpc

MODEL, MIXED, SUFFIX, NGRAM = (one.value for one in (
    Drafter.MODEL, Drafter.MIXED, Drafter.SUFFIX, Drafter.NGRAM,
))  # fmt: skip
SETTINGS = (
    *with_drafters(parse_settings("4,auto"), [MODEL, MIXED]),
    *with_drafters(parse_settings("auto"), [SUFFIX, NGRAM]),
)
NEW_TOKENS = 64
TEMPERATURES = {"greedy": 0.0, "t1": 1.0}
COPYING = (EDITING, "extraction")
"""Kinds with long copies: what copying is judged by."""
EMBEDDED_LEAST, LOOKUP_LEAST = 2.4, 4.0
"""Tokens a round that the embedded draft and copying should come to."""


class _Silent:
    """Nobody watches."""

    def place_begins(self, place: Place) -> None:
        """Says nothing."""

    def stint_begins(self, place: Place, setting: Setting, *, share: float) -> None:
        """Says nothing."""


def measure(
    *, prompts: int = 6, temperatures: Sequence[str] = tuple(TEMPERATURES)
) -> Iterator[Row]:
    """Rows for each temperature, kind of task and setting, and the means `*_tokens_per_round`.

    `prompts`: of each kind.
    """
    cores = usable_cores()
    options = PairOptions(
        dtype="bfloat16",
        threads=1,
        draft_length="auto",
        copy_recent=0,
        drafters=[
            ComparedDraft(way, Drafter(way), "embedded") for way in (MODEL, MIXED, SUFFIX, NGRAM)
        ],
        pinned_cores=cores if len(cores) > 1 else (),
    )
    with own_pair(options, ()) as subject:
        for address in (subject.address, *subject.drafters.values()):
            with Client(address, tls=subject.tls) as client:
                ready_state(client)
        for temperature in temperatures:
            found: dict[str, Sequence[Cell]] = {}
            for kind in ALL_KINDS:
                cells = asyncio.run(
                    _cells(subject, built_in([kind])[:prompts], TEMPERATURES[temperature])
                )
                found[kind] = [cell for cell in cells if cell.versus is not None]
                for cell in found[kind]:
                    yield _row(kind, temperature, cell)
                print(f"  drafters: {kind}, {temperature}", file=sys.stderr, flush=True)
            yield from _means(temperature, found)


async def _cells(
    subject: BenchSubject, prompts: Sequence[Prompt], temperature: float
) -> list[Cell]:
    plan = BenchPlan(
        speculating=SETTINGS,
        concurrencies=[1],
        round_trips_ms=[],
        max_new_tokens=NEW_TOKENS,
        budget=Budget(requests=len(prompts)),
    )
    sampling = common_pb2.SamplingParams(
        temperature=temperature,
        seed=1,
        verification=common_pb2.VERIFICATION_REJECTION,
        ignore_eos=False,
    )
    measurements = Measurements(plan.settings)
    async with AsyncExitStack() as stack:
        stubs = {}
        for drafter, address in {"": subject.address, **subject.drafters}.items():
            channel = await stack.enter_async_context(open_channel(address, subject.tls))
            stubs[drafter] = generation_pb2_grpc.GenerationServiceStub(channel)
        load = Load(stubs, prompts, sampling=sampling)
        await measure_all(
            plan, load, into=measurements, listener=_Silent(), set_round_trip=lambda _: None
        )
    return measurements.cells()


def _row(kind: str, temperature: str, cell: Cell) -> Row:
    """Speed of one setting, and in the note what its rounds were like."""
    assert cell.versus is not None
    rounds = cell.rounds
    places = ", ".join(f"{share:.2f}" for share in rounds.acceptance_by_position[:8])
    return Row(
        f"drafters_{kind}_{temperature}_{_way(cell)}",
        cell.tokens_per_s.median,
        "tokens/s",
        cell.turns,
        ratio=cell.versus.speed.median,
        against="the target alone, prompt by prompt",
        note=f"{_figure(rounds.tokens_per_round)} tokens a round; "
        f"acceptance {_figure(rounds.acceptance)}, by place {places or 'none'}; "
        f"{_figure(rounds.copied_share)} of draft tokens copied, "
        f"{_figure(rounds.copied_acceptance)} of them accepted; "
        f"{rounds.bytes_per_round or 0:.0f} bytes a round; "
        f"{cell.requests} prompts of {NEW_TOKENS} tokens",
    )


def _means(temperature: str, found: Mapping[str, Sequence[Cell]]) -> Iterator[Row]:
    """Tokens a round of each way where it is meant to help, kinds weighing the same."""
    greedy = temperature == "greedy"
    for name, kinds, ways, least in (
        ("embedded", KINDS, ("k4_model", "auto_model"), EMBEDDED_LEAST),
        ("lookup", COPYING, ("k4_mixed", "auto_mixed", "auto_suffix", "auto_ngram"), LOOKUP_LEAST),
    ):
        for way in ways:
            cells = {kind: next(one for one in found[kind] if _way(one) == way) for kind in kinds}
            tokens = {kind: one.rounds.tokens_per_round or 0.0 for kind, one in cells.items()}
            speeds = [one.versus.speed.median for one in cells.values() if one.versus is not None]
            first = way == ways[0]
            yield Row(
                f"{name}_tokens_per_round" + ("" if greedy and first else f"_{temperature}_{way}"),
                fmean(tokens.values()),
                "tokens",
                sum(one.requests for one in cells.values()),
                ratio=geometric_mean(speeds),
                against="speed of the target alone",
                bar=f"≥ {least:g}" if greedy and first else "",
                note=", ".join(f"{kind} {one:.2f}" for kind, one in tokens.items())
                + f"; {way.replace('_', ', ')}; {temperature}; {NEW_TOKENS} tokens each",
            )


def _way(cell: Cell) -> str:
    """A setting as part of a row's name."""
    return cell.setting.replace(" = ", "").replace(", ", "_")


def _figure(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
