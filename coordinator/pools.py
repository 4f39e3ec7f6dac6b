"""The target and the draft a coordinator works with, watched and kept paired."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog
from grpc import aio

from coordinator.pairing import PairingError, check_pair
from coordinator.text.fetch import TokenizerMismatchError, fetch_tokenizer
from coordinator.text.tokenizer import TargetTokenizer
from coordinator.worker import Probe, Worker
from outrider.errors import PoolUnavailable
from outrider.v1 import model_pb2

WATCH_INTERVAL_S = 2.0
IMPATIENT_INTERVAL_S = 0.25

log = structlog.get_logger(__name__)


class Pools:
    """Watches both workers; knows the target's model and tokenizer and whether the draft fits.

    A worker that restarts has another replica id: its model is looked at anew before it is used.
    """

    def __init__(self, target: Worker, draft: Worker | None, *, tokenizer_digest: str = "") -> None:
        """`tokenizer_digest`: what the target's tokenizer must have; empty: any."""
        self._pinned_digest = tokenizer_digest
        self.target = target
        self.draft = draft
        self.tokenizer: TargetTokenizer | None = None
        self.draft_refusal = ""
        self._ready_target: model_pb2.GetModelResponse | None = None
        self._paired: tuple[str, str] | None = None
        self._draft_model: model_pb2.GetModelResponse | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self.became_ready = asyncio.Event()

    def start(self) -> None:
        """Begins to watch."""
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stops watching and closes the channels."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await asyncio.gather(*self._endings, return_exceptions=True)
        await self.target.channel.close()
        if self.draft is not None:
            await self.draft.channel.close()

    def end_later(self, ending: Coroutine[Any, Any, None]) -> None:
        """Lets a session end its stream in order, without its generation waiting for that."""
        task = asyncio.create_task(ending)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    def target_model(self) -> model_pb2.GetModelResponse:
        """What the target serves. Raises PoolUnavailable while there is no usable target."""
        model = self._ready_target
        if model is None or self.target.last.reason:
            reason = self.target.last.reason or "its tokenizer is not here yet"
            raise PoolUnavailable(
                f"no target at {self.target.address}: {reason}", retry_after_s=1.0
            )
        return model

    def draft_model(self) -> model_pb2.GetModelResponse | None:
        """What the draft serves, while it is usable and fits the target."""
        usable = self.draft is not None and not self.draft.last.reason and not self.draft_refusal
        return self._draft_model if usable else None

    def draft_context_length(self) -> int:
        """Most ids of one sequence at the draft; 0 while there is none to use."""
        model = self.draft_model()
        return model.context_length if model is not None else 0

    def draft_channel(self) -> aio.Channel | None:
        """The draft's channel, while the draft is usable and fits the target."""
        if self.draft is None or self.draft_model() is None:
            return None
        return self.draft.channel

    async def look(self) -> None:
        """Looks at both workers once, and at their fit when one of them is new."""
        probes = [self.target.probe(), *([self.draft.probe()] if self.draft else [])]
        await asyncio.gather(*probes)
        await self._take_target(self.target.last)
        if self.draft is not None:
            await self._take_draft(self.draft.last)

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("watching the workers failed")
            missing = self.draft is not None and self.draft_model() is None
            settled = self.became_ready.is_set() and not self.target.last.reason and not missing
            await asyncio.sleep(WATCH_INTERVAL_S if settled else IMPATIENT_INTERVAL_S)

    async def _take_target(self, probe: Probe) -> None:
        model = probe.model
        if model is None or probe.reason:
            return
        known = self._ready_target
        if known is not None and known.replica_id == model.replica_id:
            return
        if known is None or known.tokenizer_digest != model.tokenizer_digest:
            try:
                self.tokenizer = await fetch_tokenizer(
                    self.target.channel, model, pinned_digest=self._pinned_digest
                )
            except (aio.AioRpcError, TokenizerMismatchError) as error:
                log.warning("target tokenizer not usable", error=str(error))
                return
        self._ready_target = model
        self._paired = None
        self.became_ready.set()
        log.info("target ready", address=self.target.address, model=model.name, dtype=model.dtype)

    async def _take_draft(self, probe: Probe) -> None:
        target, draft = self._ready_target, probe.model
        if target is None or draft is None or probe.reason or self.draft is None:
            return
        pair = (target.replica_id, draft.replica_id)
        if pair == self._paired:
            return
        self._draft_model = None
        try:
            tokenizer = None
            if draft.tokenizer_digest != target.tokenizer_digest:
                tokenizer = await fetch_tokenizer(self.draft.channel, draft)
            check_pair(target, draft, self.tokenizer, tokenizer)
        except (PairingError, TokenizerMismatchError) as error:
            self.draft_refusal = str(error)
            log.warning("draft refused", address=self.draft.address, reason=str(error))
        except aio.AioRpcError as error:
            log.warning("draft tokenizer not fetched", error=error.details())
            return
        else:
            self.draft_refusal = ""
            log.info("draft paired", address=self.draft.address, model=draft.name)
        self._draft_model = draft
        self._paired = pair
