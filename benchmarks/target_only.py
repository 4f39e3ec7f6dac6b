"""1 to 64 generations by the target alone, beside transformers on the same core.

The services are real processes. Contenders take turns, run by run, on the same prompts; each run
has new ones, so that no prompt is found in a cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from benchmarks import clients, single_rounds
from benchmarks.corpus import Corpus, chats
from benchmarks.prompts import many_prompts
from benchmarks.results import Row
from benchmarks.services import Placement, placement_of, running_targets
from benchmarks.subject import EMBEDDED, Subject
from benchmarks.transformers_rivals import TransformersRivals

COUNTS = (1, 4, 8, 16, 32, 64)
ROUND_COUNTS = (8, 64)
OUTPUT_TOKENS = 48
ONE_BY_ONE_PROMPTS = 1
FEW_RUNS, MANY_GENERATIONS = 2, 16
"""From so many generations on, a run is long enough for few of them."""
GATHERING = {"on": {"gather": "true"}, "off": {"gather": "false"}}

Prompts = Sequence[Sequence[int]]
Contender = Callable[[Prompts], float]
"""Prompts → tokens per second."""


def measure(
    *, counts: Sequence[int] = COUNTS, runs: int = 3, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """For each number of generations: against `generate`, continuous batching, gathering off."""
    placement, corpus = placement_of(subject), Corpus(subject.folder)
    rivals = TransformersRivals(subject, placement.target_cores)
    with running_targets(subject, GATHERING, placement) as targets:
        contenders: dict[str, Contender] = {
            "generate": lambda prompts: rivals.one_by_one(
                prompts[:ONE_BY_ONE_PROMPTS], output_tokens=OUTPUT_TOKENS
            ),
            "batching": lambda prompts: rivals.batched(prompts, output_tokens=OUTPUT_TOKENS),
            **_clients({name: one.coordinator for name, one in targets.items()}),
        }
        warm_up(contenders, corpus)
        for count in counts:
            rates = compete(contenders, corpus, count=count, runs=_runs(count, runs))
            yield from _rows(count, rates, subject, placement)


def measure_rounds(
    *, counts: Sequence[int] = ROUND_COUNTS, runs: int = 3, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """Generations that come back for each token, with gathering and without."""
    placement, corpus = placement_of(subject), Corpus(subject.folder)
    with running_targets(subject, GATHERING, placement) as targets:
        contenders: dict[str, Contender] = {
            name: lambda prompts, target=one.target: single_rounds.tokens_per_s(  # type: ignore[misc]
                target, prompts, output_tokens=OUTPUT_TOKENS
            )
            for name, one in targets.items()
        }
        warm_up(contenders, corpus)
        for count in counts:
            rates = compete(contenders, corpus, count=count, runs=_runs(count, runs))
            yield versus(
                subject.row(f"target_rounds_{count}"),
                rates["on"],
                rates["off"],
                against="gathering off",
                note=f"{count} streams, a round for each token, {_note(subject, placement)}",
            )


def measure_variants(
    name: str,
    variants: Mapping[str, Mapping[str, str]],
    *,
    counts: Sequence[int],
    runs: int = 3,
    subject: Subject = EMBEDDED,
) -> Iterator[Row]:
    """Rows `NAME_COUNT`: the last of two groups of the target's settings against the first."""
    placement, corpus = placement_of(subject), Corpus(subject.folder)
    before, after = variants
    with running_targets(subject, variants, placement) as targets:
        contenders = _clients({one: target.coordinator for one, target in targets.items()})
        warm_up(contenders, corpus)
        for count in counts:
            rates = compete(contenders, corpus, count=count, runs=_runs(count, runs))
            yield versus(
                subject.row(f"{name}_{count}"),
                rates[after],
                rates[before],
                against=f"{before} instead of {after}",
                note=f"{count} generations, {_note(subject, placement)}",
            )


def warm_up(contenders: Mapping[str, Contender], corpus: Corpus) -> None:
    """Lets each do the first of its work, which is slow."""
    for contender in contenders.values():
        contender(chats(corpus, many_prompts(1), edition=0))


def compete(
    contenders: Mapping[str, Contender], corpus: Corpus, *, count: int, runs: int
) -> dict[str, list[float]]:
    """Tokens per second of each contender in each run of `count` generations."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    texts = many_prompts(count)
    for run in range(runs):
        prompts = chats(corpus, texts, edition=1 + 1000 * count + run)
        for name, contender in contenders.items():
            rates[name].append(contender(prompts))
    words = ", ".join(f"{name} {median(found):.1f}" for name, found in rates.items())
    print(f"  {count} generations, tokens/s: {words}", file=sys.stderr, flush=True)
    return rates


def versus(
    name: str, ours: Sequence[float], theirs: Sequence[float], *, against: str, note: str
) -> Row:
    """Tokens per second against those of another contender in the same runs."""
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Row(
        name,
        median(ours),
        "tokens/s",
        len(ours),
        ratio=median(ratios),
        against=f"{against}, {median(theirs):.1f} tokens/s",
        note=f"ratios {min(ratios):.2f} to {max(ratios):.2f}; {note}",
    )


def _rows(
    count: int, rates: Mapping[str, Sequence[float]], subject: Subject, placement: Placement
) -> Iterator[Row]:
    name = subject.row(f"target_only_{count}")
    note = f"{count} generations, {_note(subject, placement)}"
    for tail, rival, words in (
        ("", "generate", "transformers' generate one by one"),
        ("_against_batching", "batching", "transformers' continuous batching"),
        ("_gather", "off", "gathering off"),
    ):
        yield versus(name + tail, rates["on"], rates[rival], against=words, note=note)


def _runs(count: int, runs: int) -> int:
    return min(runs, FEW_RUNS) if count >= MANY_GENERATIONS else runs


def _clients(coordinators: Mapping[str, str]) -> dict[str, Contender]:
    return {
        name: lambda prompts, address=address: clients.tokens_per_s(  # type: ignore[misc]
            address, prompts, output_tokens=OUTPUT_TOKENS
        )
        for name, address in coordinators.items()
    }


def _note(subject: Subject, placement: Placement) -> str:
    cores = len(placement.target_cores)
    return (
        f"{OUTPUT_TOKENS} tokens each after chats of some 45, prefill included; {subject.note}; "
        f"target alone on {'its core' if cores == 1 else f'{cores} cores'}, coordinator and "
        f"clients elsewhere"
    )
