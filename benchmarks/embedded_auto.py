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
from benchmarks.clients import Seen, answer_all
from benchmarks.corpus import Corpus
from benchmarks.distant_draft import running_with_distant_draft
from benchmarks.results import Row
from benchmarks.services import embedded_programs, pinned
from benchmarks.speculation import Run, round_words
from benchmarks.subject import EMBEDDED
from benchmarks.ways import AUTO, OFF, Way
from outrider.bench.prompts import built_in
from outrider.testing.cluster import token_request
from outrider.v1 import common_pb2, generation_pb2

TEMPERATURES = {"greedy": 0.0, "t0.8": 0.8}
OUTPUT_TOKENS = 96
WARM_UP_TOKENS = 24
SEED = 1

Chat = tuple[str, Sequence[int]]
"""Kind of task, and the prompt's ids."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The three on one prompt; of transformers the tokens per second."""

    kind: str
    auto: Seen
    alone: Seen
    assisted: float


def measure(*, prompts: int = 8, output_tokens: int = OUTPUT_TOKENS) -> Iterator[Row]:
    """Rows `embedded_vs_target_only` and `embedded_vs_hf_assisted`, and those of each sampling.

    Of the prompts the four kinds have as many each.
    """
    corpus = Corpus(EMBEDDED.folder)
    assisted = AssistedGeneration(EMBEDDED, frozenset(os.sched_getaffinity(0)))
    chats = [
        (prompt.kind, corpus.chat(prompt.messages[-1].content)) for prompt in built_in()[:prompts]
    ]
    placement = pinned()
    programs = embedded_programs(dtype=EMBEDDED.dtype, threads=placement.threads)
    turns: dict[str, list[_Turn]] = {}
    with running_with_distant_draft(programs, placement) as services:
        contest = _Contest(services.coordinator, assisted)
        for name, temperature in TEMPERATURES.items():
            contest.turn(chats[0], temperature, output_tokens=WARM_UP_TOKENS)
            turns[name] = [
                contest.turn(chat, temperature, output_tokens=output_tokens) for chat in chats
            ]
            yield from _rows(f"_auto_{name}", turns[name], output_tokens)
    yield from _rows("", [turn for some in turns.values() for turn in some], output_tokens)


@dataclass(frozen=True, slots=True)
class _Contest:
    coordinator: str
    assisted: AssistedGeneration

    def turn(self, chat: Chat, temperature: float, *, output_tokens: int) -> _Turn:
        """One after the other."""
        kind, prompt = chat
        auto, alone = (
            answer_all(self.coordinator, [_request(prompt, way, temperature, output_tokens)])[0]
            for way in (AUTO, OFF)
        )
        assisted = self.assisted.tokens_per_s(
            prompt, output_tokens=output_tokens, temperature=temperature
        )
        print(
            f"  {kind} at temperature {temperature:g}, tokens/s: auto {auto.tokens_per_s:.1f}, "
            f"alone {alone.tokens_per_s:.1f}, assisted {assisted:.1f}",
            file=sys.stderr,
            flush=True,
        )
        return _Turn(kind, auto, alone, assisted)


def _rows(tail: str, turns: Sequence[_Turn], output_tokens: int) -> Iterator[Row]:
    auto = [turn.auto.tokens_per_s for turn in turns]
    for name, others, words in (
        ("target_only", [turn.alone.tokens_per_s for turn in turns], "target alone on its core"),
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
            f"{kinds}; {round_words([Run([turn.auto for turn in turns])])}; {output_tokens} tokens "
            f"each, prefill included; {EMBEDDED.dtype}; draft and target on a core each",
        )


def _request(
    prompt: Sequence[int], way: Way, temperature: float, output_tokens: int
) -> generation_pb2.GenerateRequest:
    return token_request(
        prompt,
        max_new_tokens=output_tokens,
        sampling=common_pb2.SamplingParams(
            temperature=temperature,
            seed=SEED,
            ignore_eos=True,
            verification=common_pb2.VERIFICATION_REJECTION,
        ),
        speculation=way,
    )
