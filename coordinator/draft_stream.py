"""One open call to a draft: rounds go out without waiting for answers, answers are handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import structlog
from grpc import aio

from coordinator.calls import CLOSED_CALL_ERRORS, Peer, error_of, send
from outrider.v1 import draft_pb2, draft_pb2_grpc

log = structlog.get_logger(__name__)

DraftCall: TypeAlias = "aio.StreamStreamCall[draft_pb2.DraftRequest, draft_pb2.DraftResponse]"


class DraftGoneError(Exception):
    """The draft ended the stream without having been asked to, or another took its place."""


class UnlawfulDraftError(DraftGoneError):
    """It sends what no sound draft would."""


class DraftStream:
    """Writes the latest round, reads every answer, each in a task of its own.

    A round that could not be written yet is replaced by a later one: that one says all.
    """

    def __init__(
        self,
        peer: Peer,
        open_message: draft_pb2.DraftOpen,
        *,
        on_answer: Callable[[draft_pb2.DraftResponse], None],
        on_end: Callable[[BaseException], None],
        timeout_s: float | None = None,
    ) -> None:
        """`on_answer` may raise DraftGoneError to end the stream. `on_end` is called once, with
        what ended it, unless the stream was closed or abandoned before. `timeout_s`: how long it
        may last."""
        self.call: DraftCall = draft_pb2_grpc.DraftServiceStub(peer.channel).Draft(
            timeout=timeout_s
        )
        self.bytes = 0
        """Of all messages, either way, but those of the first round, which brings the prompt."""
        self._first_number: int | None = None
        self._on_answer = on_answer
        self._on_end: Callable[[BaseException], None] | None = on_end
        self._round: draft_pb2.DraftRequest | None = None
        self._wanted = asyncio.Event()
        self._closing = False
        self._writer = asyncio.create_task(self._guarded(lambda: self._write_rounds(open_message)))
        self._reader = asyncio.create_task(self._guarded(self._read_answers))

    def send(self, message: draft_pb2.DraftRound) -> None:
        """Has a round written, in place of one that is still to be written."""
        self._round = draft_pb2.DraftRequest(round=message)
        self._wanted.set()

    async def close(self, *, patience_s: float = 1.0) -> None:
        """Half-closes, so that the draft frees the state at once, and waits briefly for its end."""
        self._closing, self._on_end = True, None
        self._wanted.set()
        await asyncio.wait({self._reader}, timeout=patience_s)
        self.abandon()

    def abandon(self) -> None:
        """Breaks the stream off."""
        self._on_end = None
        self._writer.cancel()
        self.call.cancel()

    async def _write_rounds(self, open_message: draft_pb2.DraftOpen) -> None:
        await send(self.call, draft_pb2.DraftRequest(open=open_message))
        while not self._closing:
            await self._wanted.wait()
            self._wanted.clear()
            message, self._round = self._round, None
            if message is not None and not self._closing:
                await send(self.call, message)
                self._count(message.round.number, message)
        await self.call.done_writing()

    async def _read_answers(self) -> None:
        while True:
            answer = await self.call.read()
            if not isinstance(answer, draft_pb2.DraftResponse):
                raise DraftGoneError
            self._count(answer.round_number, answer)
            if self._on_end is not None:
                self._on_answer(answer)

    def _count(
        self, number: int, message: draft_pb2.DraftRequest | draft_pb2.DraftResponse
    ) -> None:
        if self._first_number is None:
            self._first_number = number
        if number > self._first_number:
            self.bytes += message.ByteSize()

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Whatever ends the reading or the writing ends the stream, and nothing else."""
        try:
            await work()
        except CLOSED_CALL_ERRORS as error:
            self._end(await error_of(self.call) or error)
        except (aio.AioRpcError, DraftGoneError, asyncio.CancelledError) as error:
            self._end(error)
        except Exception as error:
            log.exception("a draft's answer could not be read")
            self._end(error)

    def _end(self, error: BaseException) -> None:
        on_end = self._on_end
        self.abandon()
        if on_end is not None:
            on_end(error)
