"""The target and the draft a coordinator works with, watched and kept paired."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
from grpc import aio

from coordinator.calls import Peer
from coordinator.draft_pace import DraftPace
from coordinator.pairing import PairingError, check_pair
from coordinator.policy import PoolPolicy
from coordinator.text.fetch import TokenizerMismatchError, fetch_tokenizer
from coordinator.text.tokenizer import TargetTokenizer
from coordinator.worker import Probe, Worker
from outrider.errors import PoolUnavailable
from outrider.v1 import model_pb2

WATCH_INTERVAL_S = 2.0
IMPATIENT_INTERVAL_S = 0.25

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReadyTarget:
    """One process that serves a target, its model, and the tokenizer of that model if it has one.

    A generation is planned and run with one of these from beginning to end.
    """

    model: model_pb2.GetModelResponse
    tokenizer: TargetTokenizer | None
    peer: Peer


class Pools:
    """Watches both workers; knows the target's model and tokenizer and whether the draft fits.

    A worker that restarts has another replica id. Answers of a process that has not been looked at
    are never used: the sessions compare that id.
    """

    def __init__(self, target: Worker, draft: Worker | None, *, tokenizer_digest: str = "") -> None:
        """`tokenizer_digest`: what the target's tokenizer must have; empty: any."""
        self._pinned_digest = tokenizer_digest
        self.target = target
        self.draft = draft
        self.draft_refusal = ""
        self._ready: ReadyTarget | None = None
        self._paired: tuple[str, str] | None = None
        self._draft_model: model_pb2.GetModelResponse | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._look_soon = asyncio.Event()
        self.became_ready = asyncio.Event()
        self.policy = PoolPolicy()
        self.draft_pace = DraftPace()

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

    def ready_target(self) -> ReadyTarget:
        """The usable target. Raises PoolUnavailable while there is none."""
        ready = self._ready
        if ready is None or self.target.last.reason:
            reason = self.target.last.reason or "its tokenizer is not here yet"
            raise PoolUnavailable(
                f"no target at {self.target.address}: {reason}", retry_after_s=1.0
            )
        return ready

    def suspect(self) -> None:
        """Something went wrong with a worker: look at both at once."""
        self._look_soon.set()

    def draft_model(self) -> model_pb2.GetModelResponse | None:
        """What the draft serves, while it is usable and fits the target."""
        usable = self.draft is not None and not self.draft.last.reason and not self.draft_refusal
        return self._draft_model if usable else None

    def draft_context_length(self) -> int:
        """Most ids of one sequence at the draft; 0 while there is none to use."""
        model = self.draft_model()
        return model.context_length if model is not None else 0

    def draft_peer(self) -> Peer | None:
        """The draft, while it is usable and fits the target."""
        model = self.draft_model()
        if self.draft is None or model is None:
            return None
        return Peer(self.draft.channel, model.replica_id)

    async def probe(self) -> None:
        """Looks at both workers, without waiting for what a new one has to be asked."""
        await asyncio.gather(*(worker.probe() for worker in (self.target, self.draft) if worker))

    async def look(self) -> None:
        """Looks at both workers once, and at their fit when one of them is new."""
        await self.probe()
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
            interval_s = WATCH_INTERVAL_S if settled else IMPATIENT_INTERVAL_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_soon.wait(), interval_s)
            self._look_soon.clear()

    async def _take_target(self, probe: Probe) -> None:
        model = probe.model
        if model is None or probe.reason:
            return
        known = self._ready
        if known is not None and known.model.replica_id == model.replica_id:
            return
        tokenizer = known.tokenizer if known is not None else None
        if known is None or known.model.tokenizer_digest != model.tokenizer_digest:
            try:
                tokenizer = await fetch_tokenizer(
                    self.target.channel, model, pinned_digest=self._pinned_digest
                )
            except (aio.AioRpcError, TokenizerMismatchError) as error:
                log.warning("target tokenizer not usable", error=str(error))
                return
        self._ready = ReadyTarget(model, tokenizer, Peer(self.target.channel, model.replica_id))
        self._paired = None
        self.became_ready.set()
        log.info("target ready", address=self.target.address, model=model.name, dtype=model.dtype)

    async def _take_draft(self, probe: Probe) -> None:
        ready, draft = self._ready, probe.model
        if ready is None or draft is None or probe.reason or self.draft is None:
            return
        target = ready.model
        pair = (target.replica_id, draft.replica_id)
        if pair == self._paired:
            return
        self._draft_model = None
        try:
            tokenizer = None
            if draft.tokenizer_digest != target.tokenizer_digest:
                tokenizer = await fetch_tokenizer(self.draft.channel, draft)
            check_pair(target, draft, ready.tokenizer, tokenizer)
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
