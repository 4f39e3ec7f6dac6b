"""The embedded pair as it is by default, against the target alone and transformers' assistance.

Draft and target have a core each. For every prompt the three take turns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.assisted import AssistedGeneration
from benchmarks.bootstrap import geometric_mean
from benchmarks.chat_load import ChatLoad, chats
from benchmarks.clients import answer_all
from benchmarks.distant_draft import running_with_distant_draft
from benchmarks.results import Row
from benchmarks.services import embedded_programs, pinned
from benchmarks.speculation import Run, round_words
from benchmarks.subject import EMBEDDED
from benchmarks.ways import AUTO, OFF

TEMPERATURES = {"greedy": 0.0, "t0.8": 0.8}
OUTPUT_TOKENS = 96


@dataclass(frozen=True, slots=True)
class _Turn:
    """The three on one chat, in tokens per second after the first; `run` is ours."""

    kind: str
    auto: float
    alone: float
    assisted: float
    run: Run


def measure(*, prompts: int = 8, output_tokens: int = OUTPUT_TOKENS) -> Iterator[Row]:
    """Rows `embedded_vs_target_only` and `embedded_vs_hf_assisted`, and those of each sampling."""
    some = chats(prompts)
    assisted = AssistedGeneration(EMBEDDED, frozenset(os.sched_getaffinity(0)))
    placement = pinned()
    programs = embedded_programs(dtype=EMBEDDED.dtype, threads=placement.threads)
    turns: dict[str, list[_Turn]] = {}
    with running_with_distant_draft(programs, placement) as services:
        for name, temperature in TEMPERATURES.items():
            load = ChatLoad(chats=some, temperature=temperature, output_tokens=output_tokens)
            contest = _Contest(services.coordinator, assisted, load)
            contest.turn(0)
            turns[name] = [contest.turn(edition) for edition in range(prompts)]
            yield from _rows(f"_auto_{name}", turns[name], output_tokens)
    yield from _rows("", [turn for some in turns.values() for turn in some], output_tokens)


@dataclass(frozen=True, slots=True)
class _Contest:
    coordinator: str
    assisted: AssistedGeneration
    load: ChatLoad

    def turn(self, edition: int) -> _Turn:
        """One after the other."""
        chat = self.load.chats[edition]
        auto, alone = (
            Run(answer_all(self.coordinator, self.load.requests(way, edition=edition)))
            for way in (AUTO, OFF)
        )
        assisted = self.assisted.tokens_per_s(
            chat.token_ids,
            output_tokens=self.load.output_tokens,
            temperature=self.load.temperature,
        )
        print(
            f"  {chat.kind} at temperature {self.load.temperature:g}, tokens/s: auto "
            f"{auto.tokens_per_s:.1f}, alone {alone.tokens_per_s:.1f}, assisted {assisted:.1f}",
            file=sys.stderr,
            flush=True,
        )
        return _Turn(chat.kind, auto.tokens_per_s, alone.tokens_per_s, assisted, auto)


def _rows(tail: str, turns: Sequence[_Turn], output_tokens: int) -> Iterator[Row]:
    auto = [turn.auto for turn in turns]
    for name, others, words in (
        ("target_only", [turn.alone for turn in turns], "target alone on its core"),
        (
            "hf_assisted",
            [turn.assisted for turn in turns],
            "transformers' assisted generation, both models in one process on both cores",
        ),
    ):
        each = [ours / theirs for ours, theirs in zip(auto, others, strict=True)]
        by_kind: dict[str, list[float]] = {}
        for ratio, turn in zip(each, turns, strict=True):
            by_kind.setdefault(turn.kind, []).append(ratio)
        kinds = ", ".join(f"{kind} {geometric_mean(one):.2f}" for kind, one in by_kind.items())
        yield Row(
            f"embedded_vs_{name}{tail}",
            median(auto),
            "tokens/s",
            len(turns),
            ratio=geometric_mean(each),
            against=f"{words}, {median(others):.1f} tokens/s",
            note=f"geometric mean over prompts, {min(each):.2f} to {max(each):.2f}; by kind: "
            f"{kinds}; {round_words([turn.run for turn in turns])}; {output_tokens} tokens "
            f"each, without the prompt's time; {EMBEDDED.dtype}; draft and target on a core each",
        )
