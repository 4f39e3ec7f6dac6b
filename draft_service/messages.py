"""From drafted tokens to the contract's messages."""

from __future__ import annotations

from draft_service.proposal import DraftedToken
from outrider.v1 import common_pb2


def token_message(token: DraftedToken, *, node_id: int) -> common_pb2.DraftToken:
    """The token and its law; where it hangs is left to be said."""
    message = common_pb2.DraftToken(node_id=node_id, token_id=token.token_id)
    if token.weights:
        message.distribution.token_ids.extend(token.candidate_ids)
        message.distribution.weights.extend(token.weights)
    else:
        message.point_mass.SetInParent()
    return message
