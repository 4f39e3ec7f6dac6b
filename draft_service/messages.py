"""From drafted tokens to the contract's messages."""

from __future__ import annotations

from collections.abc import Sequence

from draft_service.proposal import DraftedToken
from outrider.v1 import common_pb2


def draft_tokens(
    tokens: Sequence[DraftedToken], *, root_round: int, first_node_id: int
) -> list[common_pb2.DraftToken]:
    """A chain: the first token hangs from the round's root, each other from the one before."""
    messages = []
    for place, token in enumerate(tokens):
        message = common_pb2.DraftToken(node_id=first_node_id + place, token_id=token.token_id)
        if place == 0:
            message.root_round = root_round
        else:
            message.parent_node_id = first_node_id + place - 1
        if token.weights:
            message.distribution.token_ids.extend(token.candidate_ids)
            message.distribution.weights.extend(token.weights)
        else:
            message.point_mass.SetInParent()
        messages.append(message)
    return messages
