"""How often the embedded draft is right under COUPLED, beside REJECTION on the same prompts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.chat_load import ChatLoad, chats
from benchmarks.clients import answer_all
from benchmarks.distant_draft import running_with_distant_draft
from benchmarks.results import Row
from benchmarks.services import embedded_programs, pinned
from benchmarks.subject import EMBEDDED
from benchmarks.ways import synchronous
from outrider.v1 import common_pb2, generation_pb2

DRAFT_LENGTH = 4
OUTPUT_TOKENS = 96
RULES = {
    "rejection": common_pb2.VERIFICATION_REJECTION,
    "coupled": common_pb2.VERIFICATION_COUPLED,
}


@dataclass(slots=True)
class _Count:
    """Draft tokens that verdicts reached, and those that they accepted."""

    reached: int = 0
    accepted: int = 0

    def add(self, statistics: generation_pb2.SpeculationStats) -> None:
        """A token is reached when all before it in its round are accepted."""
        self.accepted += sum(statistics.accepted_per_position)
        self.reached += statistics.drafted_rounds + sum(statistics.accepted_per_position[:-1])

    @property
    def share(self) -> float:
        return self.accepted / self.reached


def measure(*, prompts: int = 12, output_tokens: int = OUTPUT_TOKENS) -> Iterator[Row]:
    """The row `coupled_acceptance`."""
    some = chats(prompts)
    counts = {name: _Count() for name in RULES}
    placement = pinned()
    programs = embedded_programs(dtype=EMBEDDED.dtype, threads=placement.threads)
    with running_with_distant_draft(programs, placement) as services:
        for edition in range(prompts):
            for name, rule in RULES.items():
                load = ChatLoad(
                    chats=some, temperature=1.0, output_tokens=output_tokens, verification=rule
                )
                requests = load.requests(synchronous(DRAFT_LENGTH), edition=edition)
                (seen,) = answer_all(services.coordinator, requests)
                counts[name].add(seen.summary.speculation)
            words = ", ".join(f"{name} {count.share:.3f}" for name, count in counts.items())
            print(f"  {edition + 1} of {prompts} chats: {words}", file=sys.stderr, flush=True)
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
