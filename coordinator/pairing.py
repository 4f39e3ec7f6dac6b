"""Whether a draft fits a target: the same ids must mean the same tokens."""

from __future__ import annotations

from coordinator.text.tokenizer import TargetTokenizer
from outrider import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION
from outrider.v1 import model_pb2


class PairingError(Exception):
    """The two cannot work together; the text says why."""


def check_pair(
    target: model_pb2.GetModelResponse,
    draft: model_pb2.GetModelResponse,
    target_tokenizer: TargetTokenizer | None,
    draft_tokenizer: TargetTokenizer | None,
) -> None:
    """Raises PairingError unless the draft's tokens are the target's.

    Equal tokenizer digests pair; the draft's tokenizer may be None then. Else the tokens are
    compared id by id over the common range: a padded vocabulary or extra tokens behind that range
    are no mismatch. Where neither model has a tokenizer, ids are all there is and they pair.
    """
    _check_service(target, model_pb2.WORKER_ROLE_TARGET)
    _check_service(draft, model_pb2.WORKER_ROLE_DRAFT)
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
    if common == 0:
        raise PairingError("the vocabularies have no id in common")
    for token_id in range(common):
        ours, theirs = target_tokenizer.token(token_id), draft_tokenizer.token(token_id)
        # An id that stands for nothing on one side is padding in the middle.
        if ours != theirs and ours is not None and theirs is not None:
            raise PairingError(
                f"token id {token_id} is {ours!r} at the target and {theirs!r} at the draft"
            )


def spoken_version(model: model_pb2.GetModelResponse) -> int:
    """The newest version of the contract that this coordinator and that worker both speak.

    Raises PairingError, naming what each speaks, when they have none in common.
    """
    oldest = model.protocol_version
    newest = model.newest_protocol_version or oldest
    version = min(newest, PROTOCOL_VERSION)
    if version < max(oldest, OLDEST_PROTOCOL_VERSION):
        raise PairingError(
            f"the {_role_name(model.role)} speaks protocol version {_range(oldest, newest)}, "
            f"not {_range(OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION)}"
        )
    return version


def _range(oldest: int, newest: int) -> str:
    return str(newest) if oldest == newest else f"{oldest} to {newest}"


def _check_service(model: model_pb2.GetModelResponse, role: model_pb2.WorkerRole.ValueType) -> None:
    wanted = _role_name(role)
    if model.role != role:
        raise PairingError(f"{model.name!r} is served as {_role_name(model.role)}, not as {wanted}")
    spoken_version(model)


def _role_name(role: model_pb2.WorkerRole.ValueType) -> str:
    """`target`, `draft` or the number of a role that is not known here."""
    if role not in model_pb2.WorkerRole.values():
        return str(role)
    return model_pb2.WorkerRole.Name(role).removeprefix("WORKER_ROLE_").lower()
