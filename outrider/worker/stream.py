"""One generation's stream at a worker: Rounds in, answers out, the same for both contracts."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from outrider.engine.handles import StateLost
from outrider.engine.loop import Done, Ticket
from outrider.errors import InvalidRequest
from outrider.v1 import common_pb2
from outrider.worker.binding import Binding, bound_handle
from outrider.worker.rounds import Answered, GaveWay, StillWorking, run_rounds
from outrider.worker.runtime import Runtime
from outrider.worker.tracing import WorkerTrace

CANCELLATION_LAG_S = 0.005


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
        self._traces: dict[int, WorkerTrace] = {}

    async def serve(
        self,
        requests: AsyncIterator[RequestT],
        *,
        handle: common_pb2.KvHandle,
        scope: bytes,
    ) -> AsyncGenerator[ResponseT, None]:
        """One answer or more for each round, on state that is pinned meanwhile."""
        async with bound_handle(self._runtime, handle, scope=scope) as binding:

            def submit(message: RoundT) -> Ticket[ResultT | StateLost]:
                job = self._handler.job(message, binding)
                self._traces[message.number] = WorkerTrace(self._handler.span_name, message.trace)
                return self._runtime.loop.submit(job)

            try:
                async with aclosing(run_rounds(self._rounds(requests), submit)) as outcomes:
                    async for outcome in outcomes:
                        yield self._answer(outcome, binding)
            finally:
                for trace in self._traces.values():
                    trace.end()

    def _answer(
        self,
        outcome: Answered[RoundT, ResultT | StateLost] | GaveWay[RoundT] | StillWorking[RoundT],
        binding: Binding,
    ) -> ResponseT:
        number = outcome.round.number
        response = self._handler.response(number)
        if isinstance(outcome, StillWorking):
            response.progress.elapsed_ms = outcome.elapsed_ms
            return response
        trace = self._traces.pop(number, None)
        if isinstance(outcome, GaveWay):
            response.superseded.CopyFrom(common_pb2.Superseded())
        else:
            self._decide(response, outcome, binding, trace)
        if trace is not None:
            trace.end()
        return response

    def _decide(
        self,
        response: ResponseT,
        outcome: Answered[RoundT, ResultT | StateLost],
        binding: Binding,
        trace: WorkerTrace | None,
    ) -> None:
        result, timings = outcome.done.result, outcome.done.timings
        if isinstance(result, StateLost):
            response.state_lost.kept_length = result.kept_length
            response.state_lost.SetInParent()
            return
        self._handler.fill(response, outcome.round, Done(result, timings), binding)
        if trace is not None:
            trace.answered(timings, tokens=self._handler.drafted(outcome.round, result))

    async def _rounds(self, requests: AsyncIterator[RequestT]) -> AsyncIterator[RoundT]:
        async for request in requests:
            message = self._handler.round_of(request)
            if message is None:
                raise InvalidRequest("round", "set in every message after the first")
            yield message
        # A broken call can look like an orderly end for a moment: its cancellation follows the
        # end of its messages.
        await asyncio.sleep(CANCELLATION_LAG_S)
