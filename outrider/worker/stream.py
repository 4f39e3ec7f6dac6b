"""One generation's stream at a worker: Rounds in, answers out, the same for both contracts."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from outrider.engine.handles import StateLost
from outrider.engine.loop import Done, Ticket
from outrider.errors import InvalidRequest
from outrider.v1 import common_pb2
from outrider.worker.binding import Binding, opening_handle
from outrider.worker.rounds import Answered, GaveWay, StillWorking, run_rounds
from outrider.worker.runtime import Runtime
from outrider.worker.signs_of_life import still_waits
from outrider.worker.tracing import WorkerTrace

CANCELLATION_LAG_S = 0.005
OPENING = 0
"""The round number of progress while a stream waits for its state."""


class RoundMessage(Protocol):
    """A Round of either contract."""

    @property
    def number(self) -> int: ...
    @property
    def trace(self) -> common_pb2.TraceContext: ...


class ResponseMessage(Protocol):
    """An answer of either contract."""

    @property
    def state_lost(self) -> common_pb2.StateLost: ...
    @property
    def superseded(self) -> common_pb2.Superseded: ...
    @property
    def progress(self) -> common_pb2.Progress: ...


RequestT = TypeVar("RequestT")
RoundT = TypeVar("RoundT", bound=RoundMessage)
JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
ResponseT = TypeVar("ResponseT", bound=ResponseMessage)


class RoundHandler(ABC, Generic[RequestT, RoundT, JobT, ResultT, ResponseT]):
    """What differs between drafting and verifying."""

    span_name: str

    @abstractmethod
    def round_of(self, request: RequestT) -> RoundT | None:
        """The Round in a message; None when it holds something else."""

    @abstractmethod
    def job(self, message: RoundT, binding: Binding) -> JobT:
        """The work of a round. Raises InvalidRequest for a round that makes no sense."""

    async def go_on(self, message: RoundT, binding: Binding) -> bool:
        """Whether the work under way goes on as that of this later round."""
        return False

    async def end_soon(self, binding: Binding) -> None:
        """Asks work that would give further answers to end with the next."""
        return

    def state_lost(self) -> None:
        """The state that the stream's rounds went on from is gone."""
        return

    @abstractmethod
    def drafted(self, message: RoundT, result: ResultT) -> int:
        """How many draft tokens the round was about, for its span."""

    @abstractmethod
    def response(self, number: int) -> ResponseT:
        """An empty answer to that round."""

    @abstractmethod
    def fill(
        self, response: ResponseT, message: RoundT, done: Done[ResultT], binding: Binding
    ) -> None:
        """Puts the result into the answer."""


class RoundStream(Generic[RequestT, RoundT, JobT, ResultT, ResponseT]):
    """Serves the rounds of one stream."""

    def __init__(
        self,
        runtime: Runtime[JobT, ResultT | StateLost],
        handler: RoundHandler[RequestT, RoundT, JobT, ResultT, ResponseT],
    ) -> None:
        self._runtime = runtime
        self._handler = handler

    async def serve(
        self,
        requests: AsyncIterator[RequestT],
        *,
        handle: common_pb2.KvHandle,
        scope: bytes,
    ) -> AsyncGenerator[ResponseT, None]:
        """One answer or more for each round, on state that is pinned meanwhile.

        Says that it is alive, under the round number 0, while the state is not pinned yet.
        """
        async with opening_handle(self._runtime, handle, scope=scope) as opening:
            since = time.monotonic()
            while await still_waits(opening):
                yield self._alive(since)
            binding = opening.result()
            work = _StreamWork(self._runtime, self._handler, binding)
            try:
                async with aclosing(run_rounds(self._rounds(requests), work)) as outcomes:
                    async for outcome in outcomes:
                        yield work.answer(outcome)
            finally:
                work.close()
                self._runtime.loop.forget(binding.owner)

    def _alive(self, since: float) -> ResponseT:
        self._runtime.check_alive()
        response = self._handler.response(OPENING)
        response.progress.elapsed_ms = int((time.monotonic() - since) * 1000)
        return response

    async def _rounds(self, requests: AsyncIterator[RequestT]) -> AsyncIterator[RoundT]:
        async for request in requests:
            message = self._handler.round_of(request)
            if message is None:
                raise InvalidRequest("round", "set in every message after the first")
            yield message
        # A broken call can look like an orderly end for a moment: its cancellation follows the
        # end of its messages.
        await asyncio.sleep(CANCELLATION_LAG_S)


class _StreamWork(Generic[RequestT, RoundT, JobT, ResultT, ResponseT]):
    """The rounds of one stream on their way to the model thread and back."""

    def __init__(
        self,
        runtime: Runtime[JobT, ResultT | StateLost],
        handler: RoundHandler[RequestT, RoundT, JobT, ResultT, ResponseT],
        binding: Binding,
    ) -> None:
        self._runtime = runtime
        self._handler = handler
        self._binding = binding
        self._traces: dict[int, WorkerTrace] = {}

    def begin(self, message: RoundT) -> Ticket[ResultT | StateLost]:
        """Submits a round. Raises InvalidRequest for one that makes no sense."""
        job = self._handler.job(message, self._binding)
        self._trace(message)
        return self._runtime.loop.submit(job, stream=self._binding.owner)

    async def go_on(self, message: RoundT) -> bool:
        """Whether the work under way goes on as that of this later round."""
        if not await self._handler.go_on(message, self._binding):
            return False
        self.close()
        self._trace(message)
        return True

    async def end_soon(self) -> None:
        """Asks work that would give further answers to end with the next."""
        await self._handler.end_soon(self._binding)

    def answer(
        self,
        outcome: Answered[RoundT, ResultT | StateLost] | GaveWay[RoundT] | StillWorking[RoundT],
    ) -> ResponseT:
        """Words what became of a round."""
        response = self._handler.response(outcome.round.number)
        if isinstance(outcome, StillWorking):
            self._runtime.check_alive()
            response.progress.elapsed_ms = outcome.elapsed_ms
            return response
        if isinstance(outcome, GaveWay):
            response.superseded.CopyFrom(common_pb2.Superseded())
            self._end_trace(outcome.round)
            return response
        self._decide(response, outcome)
        if outcome.done.last:
            self._end_trace(outcome.round)
        return response

    def close(self) -> None:
        """Ends the spans of rounds that get no further answer."""
        while self._traces:
            self._traces.popitem()[1].end()

    def _decide(self, response: ResponseT, outcome: Answered[RoundT, ResultT | StateLost]) -> None:
        done, message = outcome.done, outcome.round
        if isinstance(done.result, StateLost):
            response.state_lost.kept_length = done.result.kept_length
            response.state_lost.SetInParent()
            self._handler.state_lost()
            return
        known = Done(done.result, done.timings, done.last)
        self._runtime.counts.answered(done.timings)
        self._handler.fill(response, message, known, self._binding)
        if trace := self._traces.get(message.number):
            trace.answered(done.timings, tokens=self._handler.drafted(message, done.result))

    def _trace(self, message: RoundT) -> None:
        self._traces[message.number] = WorkerTrace(self._handler.span_name, message.trace)

    def _end_trace(self, message: RoundT) -> None:
        if trace := self._traces.pop(message.number, None):
            trace.end()
