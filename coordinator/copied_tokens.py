"""Copied tokens that lie ready: what the policy hears of them, and how many a round verifies.

A place is copied or drawn by what its draft saw before it, and by counts. So whatever is decided
here by whether a token was copied depends on no token from that place on.
"""

from __future__ import annotations

from itertools import takewhile

from coordinator import drafters
from coordinator.draft_plan import Copying, DraftPlan
from coordinator.draft_tree import DraftTree
from coordinator.policy import GenerationPolicy
from outrider.v1 import model_pb2


def copying(
    model: model_pb2.GetModelResponse | None, tree: DraftTree, *, longest: int
) -> Copying | None:
    """What a draft that serves `model` has to offer; None where it does not copy.

    `longest`: no more tokens count as ready.
    """
    if model is None or not drafters.copies(model):
        return None
    ready = sum(1 for _ in takewhile(bool, tree.copied(longest)))
    return Copying(drafters.draws(model), ready=ready, run=tree.run)


def verified(tree: DraftTree, plan: DraftPlan, policy: GenerationPolicy, *, longest: int) -> int:
    """How many of the tokens that lie ready the next round verifies, at most `longest`.

    Those of the plan; then copied ones, one after the other, as many as the policy says.
    """
    copied = tree.copied(plan.draft_length + plan.copies)
    length = min(plan.draft_length, len(copied))
    if length == len(copied) or not copied[length]:
        return length
    run = tree.run
    for one in copied[:length]:
        run = run + 1 if one else 0
    most = policy.copies(drawn=copied[:length].count(False), run=run)
    until = min(len(copied), length + most, longest)
    while length < until and copied[length]:
        length += 1
    return length
