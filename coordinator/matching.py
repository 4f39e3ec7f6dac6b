"""Finds out whether replicas can be used: targets by themselves, drafts with each target's ids."""

from __future__ import annotations

import structlog
from grpc import aio

from coordinator.pairing import PairingError, check_pair, spoken_version
from coordinator.replica import Replica
from coordinator.replica_set import ReplicaSet
from coordinator.target_model import TargetModel, law_of
from coordinator.text.fetch import TokenizerMismatchError, fetch_tokenizer
from coordinator.text.tokenizer import TargetTokenizer
from outrider.v1 import model_pb2

UNCOMPARED = "not compared with the target yet"

log = structlog.get_logger(__name__)


class Matching:
    """Keeps the tokenizers of all models, and what was found of each process.

    A process that took another's place is looked at anew before it is used.
    """

    def __init__(self, *, pinned_digest: str) -> None:
        """`pinned_digest`: what the targets' tokenizer must have, in hexadecimal; empty: any."""
        self._pinned_digest = pinned_digest
        self._tokenizers: dict[str, TargetTokenizer | None] = {"": None}

    def target(self, model: model_pb2.GetModelResponse) -> TargetModel:
        """A model that `take_target` took."""
        return TargetModel(model, self._tokenizers[model.tokenizer_digest])

    async def take_target(self, replica: Replica) -> bool:
        """Gets to know a target. True when its process is a new one and can be used."""
        model = replica.worker.last.model
        if model is None or not replica.well or replica.known_as == model.replica_id:
            return False
        try:
            spoken_version(model)
            if model.tokenizer_digest not in self._tokenizers or self._pinned_digest:
                self._tokenizers[model.tokenizer_digest] = await fetch_tokenizer(
                    replica.worker.channel, model, pinned_digest=self._pinned_digest
                )
        except (PairingError, TokenizerMismatchError) as error:
            replica.known_as = model.replica_id
            _refuse(replica, "target", str(error))
            return False
        except aio.AioRpcError as error:
            log.warning("target tokenizer not fetched", error=error.details())
            return False
        replica.known_as, replica.refusal = model.replica_id, ""
        log.info("target ready", address=replica.address, model=model.name, dtype=model.dtype)
        return True

    async def take_draft(self, replica: Replica, targets: ReplicaSet) -> None:
        """Compares a draft with every target that it was not compared with before."""
        draft = replica.worker.last.model
        if draft is None or not replica.well:
            return
        if replica.known_as != draft.replica_id:
            replica.known_as, replica.misfits = draft.replica_id, {}
        for model in {law_of(one.model): one.model for one in targets.well if one.usable}.values():
            if law_of(model) not in replica.misfits:
                await self._compare(replica, draft, self.target(model))

    async def _compare(
        self, replica: Replica, draft: model_pb2.GetModelResponse, target: TargetModel
    ) -> None:
        try:
            tokenizer = None
            if draft.tokenizer_digest != target.model.tokenizer_digest:
                tokenizer = await fetch_tokenizer(replica.worker.channel, draft)
            check_pair(target.model, draft, target.tokenizer, tokenizer)
        except (PairingError, TokenizerMismatchError) as error:
            replica.misfits[target.law] = str(error)
            _refuse(replica, "draft", str(error))
        except aio.AioRpcError as error:
            log.warning("draft tokenizer not fetched", error=error.details())
        else:
            replica.misfits[target.law], replica.refusal = "", ""
            log.info("draft paired", address=replica.address, model=draft.name)


def _refuse(replica: Replica, role: str, reason: str) -> None:
    if replica.refusal != reason:
        log.warning(f"{role} refused", address=replica.address, reason=reason)
    replica.refusal = reason
