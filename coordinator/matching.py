"""Finds out whether replicas can be used: targets by themselves, drafts with each target's ids."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

import structlog
from grpc import aio

from coordinator.pairing import PairingError, check_pair
from coordinator.replica import Replica
from coordinator.replica_set import ReplicaSet
from coordinator.target_model import TargetModel
from coordinator.text.fetch import TokenizerMismatchError, fetch_tokenizer
from coordinator.text.tokenizer import TargetTokenizer
from outrider.v1 import model_pb2

MOST_LAWS = 32
"""Of targets that are not there now: what was found of more is forgotten."""

log = structlog.get_logger(__name__)


class Matching:
    """Gets the tokenizers of all models, and notes with each replica what was found of its process.

    A process that took another's place is looked at anew before it is used.
    """

    def __init__(self, *, pinned_digest: str) -> None:
        """`pinned_digest`: what the targets' tokenizer must have, in hexadecimal; empty: any."""
        self._pinned_digest = pinned_digest
        self._tokenizers: WeakValueDictionary[str, TargetTokenizer] = WeakValueDictionary()
        """Those in use, by digest: replicas of one model share one."""

    async def take_target(self, replica: Replica) -> bool:
        """Gets to know a target. True when its process is a new one and can be used."""
        model = replica.worker.last.model
        if model is None or not replica.well or replica.known_as == model.replica_id:
            return False
        try:
            tokenizer = self._tokenizers.get(model.tokenizer_digest)
            if tokenizer is None:
                tokenizer = await fetch_tokenizer(
                    replica.worker.channel, model, pinned_digest=self._pinned_digest
                )
        except TokenizerMismatchError as error:
            replica.known_as = model.replica_id
            _refuse(replica, "target", str(error))
            return False
        except aio.AioRpcError as error:
            log.warning("target tokenizer not fetched", error=error.details())
            return False
        if tokenizer is not None:
            tokenizer = self._tokenizers.setdefault(model.tokenizer_digest, tokenizer)
        replica.known_as, replica.refusal = model.replica_id, ""
        replica.tokenizer = tokenizer
        log.info("target ready", address=replica.address, model=model.name, dtype=model.dtype)
        return True

    async def take_draft(self, replica: Replica, targets: ReplicaSet) -> None:
        """Compares a draft with every target that it was not compared with before."""
        draft = replica.worker.last.model
        if draft is None or not replica.well:
            return
        if replica.known_as != draft.replica_id:
            replica.known_as, replica.misfits = draft.replica_id, {}
        usable = [TargetModel(one.model, one.tokenizer) for one in targets.well if one.usable]
        found = {target.law: target for target in usable}
        misfits = replica.misfits
        for law, target in found.items():
            if law not in misfits and (fault := await _misfit(replica, draft, target)) is not None:
                misfits[law] = fault
        for law in [law for law in misfits if law not in found][:-MOST_LAWS]:
            del misfits[law]
        reasons = [misfits[law] for law in found if law in misfits]
        if reasons and misfits is replica.misfits:
            _refuse(replica, "draft", "" if "" in reasons else reasons[0])


async def _misfit(
    replica: Replica, draft: model_pb2.GetModelResponse, target: TargetModel
) -> str | None:
    """Why the draft there does not fit that target, empty when it does; None: it did not say."""
    try:
        tokenizer = None
        if draft.tokenizer_digest != target.model.tokenizer_digest:
            tokenizer = await fetch_tokenizer(replica.worker.channel, draft)
        # It may go through a hundred thousand ids.
        await asyncio.to_thread(check_pair, target.model, draft, target.tokenizer, tokenizer)
    except (PairingError, TokenizerMismatchError) as error:
        return str(error)
    except aio.AioRpcError as error:
        log.warning("draft tokenizer not fetched", error=error.details())
        return None
    log.info("draft paired", address=replica.address, model=draft.name)
    return ""


def _refuse(replica: Replica, role: str, reason: str) -> None:
    if reason and replica.refusal != reason:
        log.warning(f"{role} refused", address=replica.address, reason=reason)
    replica.refusal = reason
