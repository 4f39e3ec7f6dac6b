"""From drafted tokens to the contract's messages."""

from __future__ import annotations

from draft_service.proposal import DraftedToken
from outrider.draft_law import CutLaw
from outrider.v1 import common_pb2


def token_message(token: DraftedToken, *, node_id: int) -> common_pb2.DraftToken:
    """The token and its law; where it hangs is left to be said."""
    message = common_pb2.DraftToken(node_id=node_id, token_id=token.token_id, copied=token.copied)
    if isinstance(token.law, CutLaw):
        message.distribution.token_ids.extend(token.law.token_ids)
        message.distribution.weights.extend(token.law.weights)
    elif token.law is not None:
        message.point_mass.SetInParent()
    return message
