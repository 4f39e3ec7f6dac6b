"""Whether a draft fits a target: the same ids must mean the same tokens."""

from __future__ import annotations

from coordinator.text.tokenizer import TargetTokenizer
from outrider import PROTOCOL_VERSION
from outrider.v1 import model_pb2


class PairingError(Exception):
    """The draft cannot be used with this target; the text says why."""


def check_pair(
    target: model_pb2.GetModelResponse,
    draft: model_pb2.GetModelResponse,
    target_tokenizer: TargetTokenizer | None,
    draft_tokenizer: TargetTokenizer | None,
) -> None:
    """Raises PairingError unless the draft's tokens are the target's.

    Equal tokenizer digests pair. Else the tokens are compared id by id over the common range; a
    padded vocabulary or extra tokens behind that range are no mismatch. Where neither model has a
    tokenizer, ids are all there is and they pair.
    """
    if draft.role != model_pb2.WORKER_ROLE_DRAFT:
        raise PairingError(f"{draft.name!r} is served as {_role(draft)}, not as a draft")
    if draft.protocol_version != PROTOCOL_VERSION:
        raise PairingError(
            f"the draft speaks protocol version {draft.protocol_version}, not {PROTOCOL_VERSION}"
        )
    if draft.tokenizer_digest == target.tokenizer_digest:
        return
    if target_tokenizer is None or draft_tokenizer is None:
        missing = "target" if target_tokenizer is None else "draft"
        raise PairingError(f"the {missing} serves no tokenizer, so ids cannot be compared")
    common = min(
        target.vocabulary_size,
        draft.vocabulary_size,
        target_tokenizer.vocabulary_size,
        draft_tokenizer.vocabulary_size,
    )
    for token_id in range(common):
        ours, theirs = target_tokenizer.token(token_id), draft_tokenizer.token(token_id)
        if ours != theirs:
            raise PairingError(
                f"token id {token_id} is {ours!r} at the target and {theirs!r} at the draft"
            )


def _role(model: model_pb2.GetModelResponse) -> str:
    return model_pb2.WorkerRole.Name(model.role) if model.role in (1, 2) else str(model.role)
