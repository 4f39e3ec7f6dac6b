"""What a request and its deployment say about speculation."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.draft_plan import SpeculationTerms
from outrider.branch_limits import MOST_BRANCHES
from outrider.errors import InvalidRequest
from outrider.v1 import generation_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationDefaults:
    """What a deployment takes when a request does not say. None: chosen by measurement.

    `patience_s`: longest that a round waits for draft tokens.
    """

    mode: generation_pb2.SpeculationMode.ValueType
    draft_length: int | None = None
    draft_ahead: bool = True
    branches: int | None = None
    copies: int | None = None
    patience_s: float = 0.25


def speculation_terms(
    params: generation_pb2.SpeculationParams,
    defaults: SpeculationDefaults,
    *,
    max_draft_length: int,
    bonus_free: bool,
) -> SpeculationTerms | None:
    """What is left to the policy; None: the target decodes alone. Raises InvalidRequest.

    `max_draft_length` is the target's; a deployment's own draft length is cut to it.
    """
    mode = params.mode or defaults.mode
    if mode not in generation_pb2.SpeculationMode.values():
        raise InvalidRequest("speculation.mode", "a known SpeculationMode", got=mode)
    draft_length = _draft_length(params, defaults, max_draft_length=max_draft_length)
    if params.branches > MOST_BRANCHES:
        raise InvalidRequest("speculation.branches", f"0 to {MOST_BRANCHES}", got=params.branches)
    if params.copies > max_draft_length:
        raise InvalidRequest("speculation.copies", f"0 to {max_draft_length}", got=params.copies)
    if mode == generation_pb2.SPECULATION_MODE_OFF or draft_length == 0 or max_draft_length == 0:
        return None
    return SpeculationTerms(
        max_draft_length=max_draft_length,
        may_stop=mode != generation_pb2.SPECULATION_MODE_ON,
        draft_length=draft_length,
        draft_ahead=(
            params.draft_ahead if params.HasField("draft_ahead") else defaults.draft_ahead
        ),
        branches=params.branches if params.HasField("branches") else defaults.branches,
        copies=params.copies if params.HasField("copies") else defaults.copies,
        bonus_free=bonus_free,
        patience_s=defaults.patience_s,
    )


def _draft_length(
    params: generation_pb2.SpeculationParams,
    defaults: SpeculationDefaults,
    *,
    max_draft_length: int,
) -> int | None:
    if params.HasField("draft_length"):
        if params.draft_length > max_draft_length:
            raise InvalidRequest(
                "speculation.draft_length", f"0 to {max_draft_length}", got=params.draft_length
            )
        return params.draft_length
    if defaults.draft_length is None:
        return None
    return min(defaults.draft_length, max_draft_length)
