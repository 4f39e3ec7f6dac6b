"""How often the embedded draft is right under COUPLED, beside REJECTION on the same prompts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.clients import answer_all
from benchmarks.corpus import Corpus
from benchmarks.distant_draft import running_with_distant_draft
from benchmarks.results import Row
from benchmarks.services import embedded_programs, pinned
from benchmarks.subject import EMBEDDED
from benchmarks.ways import synchronous
from outrider.bench.prompts import built_in
from outrider.testing.cluster import token_request
from outrider.v1 import common_pb2, generation_pb2

DRAFT_LENGTH = 4
OUTPUT_TOKENS = 96
RULES = {
    "rejection": common_pb2.VERIFICATION_REJECTION,
    "coupled": common_pb2.VERIFICATION_COUPLED,
}


@dataclass(slots=True)
class _Count:
    """Draft tokens that a verdict reached, and those that were accepted."""

    reached: int = 0
    accepted: int = 0

    def add(self, statistics: generation_pb2.SpeculationStats) -> None:
        """A token is reached when all before it in the round are accepted."""
        self.accepted += sum(statistics.accepted_per_position)
        self.reached += statistics.drafted_rounds + sum(statistics.accepted_per_position[:-1])

    @property
    def share(self) -> float:
        return self.accepted / self.reached


def measure(*, prompts: int = 12) -> Iterator[Row]:
    """The row `coupled_acceptance`."""
    corpus, counts = Corpus(EMBEDDED.folder), {name: _Count() for name in RULES}
    placement = pinned()
    programs = embedded_programs(dtype=EMBEDDED.dtype, threads=placement.threads)
    with running_with_distant_draft(programs, placement) as services:
        for seed, prompt in enumerate(built_in()[:prompts]):
            token_ids = corpus.chat(prompt.messages[-1].content)
            for name, rule in RULES.items():
                request = _request(token_ids, rule, seed=seed)
                (seen,) = answer_all(services.coordinator, [request])
                counts[name].add(seen.summary.speculation)
            words = ", ".join(f"{name} {count.share:.3f}" for name, count in counts.items())
            print(f"  {seed + 1} of {prompts} prompts: {words}", file=sys.stderr, flush=True)
    coupled, rejection = counts["coupled"], counts["rejection"]
    yield Row(
        "coupled_acceptance",
        coupled.share,
        "of draft tokens",
        prompts,
        ratio=coupled.share / rejection.share,
        against=f"REJECTION, {rejection.share:.3f}",
        note=f"of {coupled.reached} and {rejection.reached} draft tokens that verdicts reached, "
        f"k = {DRAFT_LENGTH}, temperature 1; embedded pair, {EMBEDDED.dtype}",
    )


def _request(
    token_ids: Sequence[int], rule: common_pb2.Verification.ValueType, *, seed: int
) -> generation_pb2.GenerateRequest:
    return token_request(
        token_ids,
        max_new_tokens=OUTPUT_TOKENS,
        sampling=common_pb2.SamplingParams(
            temperature=1.0, seed=seed, ignore_eos=True, verification=rule
        ),
        speculation=synchronous(DRAFT_LENGTH),
    )
