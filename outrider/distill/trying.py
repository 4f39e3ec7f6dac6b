"""Real generations with a draft: three services on loopback, every draft token verified."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.engine.model import Model
from outrider.testing.cluster import WorkerPlan, running_cluster
from outrider.v1 import common_pb2, generation_pb2

ROUND_LENGTH = 4
PATIENCE_MS = 30_000
SLACK = 32
"""Ids that models may be ahead of an output."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What verification did with draft tokens, four in a round. Shares are 0 to 1.

    `acceptance`: accepted ÷ judged draft tokens. `by_place`: share of rounds in which the token at
    a place was accepted. `tokens_per_round`: output tokens, without first rounds.
    """

    rounds: int
    acceptance: float
    by_place: Sequence[float]
    tokens_per_round: float


@dataclass(frozen=True, slots=True)
class VerifiedBothWays:
    """The same prompts greedily, and drawn at temperature 1 by REJECTION."""

    greedy: Verified
    drawn: Verified


def try_draft(
    target: Model,
    draft: Model,
    prompts: Sequence[Sequence[int]],
    *,
    ends: Sequence[int],
    new_tokens: int,
) -> VerifiedBothWays:
    """Generates from each prompt of ids with both models, `new_tokens` each. Takes no output at
    its word: the figures are those that the coordinator reports."""
    return asyncio.run(_try(target, draft, prompts, tuple(ends), new_tokens))


async def _try(
    target: Model,
    draft: Model,
    prompts: Sequence[Sequence[int]],
    ends: tuple[int, ...],
    new_tokens: int,
) -> VerifiedBothWays:
    plans = (WorkerPlan(model, dtype="", eos_token_ids=ends) for model in (target, draft))
    async with running_cluster(*plans, draft_timeout_ms=PATIENCE_MS) as cluster:
        trials = []
        for temperature in (0.0, 1.0):
            seen = [
                (await cluster.generate(_request(ids, number, temperature, new_tokens))).summary
                for number, ids in enumerate(prompts)
            ]
            trials.append(_summed([summary.speculation for summary in seen]))
    return VerifiedBothWays(*trials)


def _request(
    token_ids: Sequence[int], number: int, temperature: float, new_tokens: int
) -> generation_pb2.GenerateRequest:
    request = generation_pb2.GenerateRequest(
        tokens=generation_pb2.TokenPrompt(token_ids=token_ids), max_new_tokens=new_tokens
    )
    request.sampling.temperature = temperature
    request.sampling.seed = number
    request.sampling.verification = common_pb2.VERIFICATION_REJECTION
    request.speculation.mode = generation_pb2.SPECULATION_MODE_ON
    request.speculation.draft_length = ROUND_LENGTH
    return request


def _summed(stats: Sequence[generation_pb2.SpeculationStats]) -> Verified:
    drafted = sum(one.drafted_rounds for one in stats)
    judged = sum(one.draft_tokens for one in stats)
    accepted = sum(one.accepted_tokens for one in stats)
    places = [0] * ROUND_LENGTH
    for one in stats:
        for place, count in enumerate(one.accepted_per_position[:ROUND_LENGTH]):
            places[place] += count
    rounds = max(1, drafted)
    return Verified(
        drafted, accepted / max(1, judged), [count / rounds for count in places],
        1.0 + accepted / rounds,
    )  # fmt: skip
