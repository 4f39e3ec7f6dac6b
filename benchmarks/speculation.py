"""Ways to use the draft, in turns on the same emulated services."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Protocol

from benchmarks.clients import Seen, answer_all
from benchmarks.ways import Way
from outrider.testing.cluster import token_request
from outrider.testing.emulated import Agreement, Law
from outrider.v1 import common_pb2, generation_pb2


class Load(Protocol):
    """What is asked in each run."""

    def requests(self, way: Way, *, edition: int) -> list[generation_pb2.GenerateRequest]:
        """Those of one run, all at once. Of one edition they are the same but for the way."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedLoad:
    """`count` generations at once, each with a prompt of its own that says `agreement`."""

    agreement: Agreement
    count: int
    output_tokens: int

    def requests(self, way: Way, *, edition: int) -> list[generation_pb2.GenerateRequest]:
        """Greedy under PEAKED laws, else at temperature 1 by the rejection rule."""
        spread = self.agreement.law is Law.SPREAD
        return [
            token_request(
                self.agreement.prompt(salt),
                max_new_tokens=self.output_tokens,
                sampling=common_pb2.SamplingParams(
                    temperature=1.0 if spread else 0.0,
                    seed=salt,
                    ignore_eos=True,
                    verification=common_pb2.VERIFICATION_REJECTION,
                ),
                speculation=way,
            )
            for salt in range(edition * self.count, (edition + 1) * self.count)
        ]


@dataclass(frozen=True, slots=True)
class Run:
    """What the clients of one run saw."""

    seen: Sequence[Seen]

    @property
    def tokens_per_s(self) -> float:
        """Summed over its generations, each by its own time from its first token to its last.

        So neither prompts, which one way may find read by another, nor who ends last matter.
        """
        return sum(one.tokens_per_s for one in self.seen)

    @property
    def seconds(self) -> float:
        """From the first question to the last token."""
        return max(one.ended for one in self.seen) - min(one.asked for one in self.seen)

    @property
    def statistics(self) -> Sequence[generation_pb2.SpeculationStats]:
        """Of each generation."""
        return [one.summary.speculation for one in self.seen]


def compete(
    coordinator: str, ways: Mapping[str, Way], load: Load, *, runs: int, first_edition: int = 1
) -> dict[str, list[Run]]:
    """The ways in turns, run by run, on the same prompts; each run has new ones."""
    found: dict[str, list[Run]] = {name: [] for name in ways}
    for run in range(runs):
        for name, way in ways.items():
            requests = load.requests(way, edition=first_edition + run)
            found[name].append(Run(answer_all(coordinator, requests)))
    words = ", ".join(f"{name} {rate(runs_of):.1f}" for name, runs_of in found.items())
    print(f"  tokens/s: {words}", file=sys.stderr, flush=True)
    return found


def rate(runs: Sequence[Run]) -> float:
    """Tokens per second, the median over runs."""
    return median(run.tokens_per_s for run in runs)


def ratios(ours: Sequence[Run], theirs: Sequence[Run]) -> list[float]:
    """How many times faster ours were, run by run."""
    return [our.tokens_per_s / their.tokens_per_s for our, their in zip(ours, theirs, strict=True)]


def round_words(runs: Sequence[Run]) -> str:
    """What rounds were like, for a note."""
    every = [one for run in runs for one in run.statistics]
    rounds = sum(one.rounds for one in every)
    drafted = sum(one.drafted_rounds for one in every)
    if not drafted:
        return f"{rounds} rounds, none with draft tokens"
    judged = sum(one.draft_tokens for one in every)
    accepted = sum(one.accepted_tokens for one in every)
    return (
        f"{fmean(one.mean_output_tokens_per_round for one in every):.2f} tokens per round, "
        f"{drafted / rounds:.0%} of rounds with {judged / drafted:.1f} draft tokens, "
        f"{accepted / judged:.2f} of them accepted, "
        f"{sum(one.ready_rounds for one in every) / drafted:.0%} ready, "
        f"{sum(one.foreseen_rounds for one in every) / drafted:.0%} from side branches"
    )
