"""From the contract's draft tokens and rules to the verifier's plain values."""

from __future__ import annotations

from outrider.v1 import common_pb2
from target_service.draft_check import CutLaw, PointMass, ProposedToken
from target_service.judgement import Rule


def proposed_token(message: common_pb2.DraftToken) -> ProposedToken:
    """A draft token as it came, unchecked: the law may be missing or make no sense."""
    match message.WhichOneof("law"):
        case "distribution":
            law = CutLaw(tuple(message.distribution.token_ids), tuple(message.distribution.weights))
            return ProposedToken(message.token_id, law)
        case "point_mass":
            return ProposedToken(message.token_id, PointMass())
        case _:
            return ProposedToken(message.token_id, None)


def rule_of(verification: common_pb2.Verification.ValueType) -> Rule:
    """The rule of a stream: REJECTION unless it says COUPLED."""
    return Rule.COUPLED if verification == common_pb2.VERIFICATION_COUPLED else Rule.REJECTION
