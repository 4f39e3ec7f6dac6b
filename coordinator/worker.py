"""One worker as the coordinator sees it: what it serves, whether it may be used, and why not."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from coordinator.calls import CLOSED_CALL_ERRORS, awaited_calls
from coordinator.pairing import PairingError, spoken_version
from outrider.v1 import model_pb2, model_pb2_grpc

PROBE_TIMEOUT_S = 2.0
LONGEST_SILENCE_S = 10.0

_WatchCall: TypeAlias = (
    "aio.UnaryStreamCall[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse]"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """What a worker answered to one look at it."""

    model: model_pb2.GetModelResponse | None = None
    status: model_pb2.ModelServiceGetStatusResponse | None = None
    reason: str = ""

    @property
    def reachable(self) -> bool:
        """It answered, ready or not."""
        return self.model is not None


CLOSED = Probe(reason="its channel was closed")


class Worker:
    """A worker's address, its channel and what the last look at it found."""

    def __init__(self, address: str, channel: aio.Channel, *, health_name: str) -> None:
        self.address = address
        self.last = Probe(reason="not reached yet")
        self.own_streams = 0
        """Streams of this coordinator there, told by whoever opens them."""
        self.others = 0
        """Streams that others had open there when it was weighed last."""
        self._health_name = health_name
        self._well_at = 0.0
        self._doubts = self._cleared = 0
        self._watched: _WatchCall | None = None
        self.reach_by(channel)

    def reach_by(self, channel: aio.Channel) -> None:
        """Takes another channel from now on. The one before is the caller's to close."""
        if self._watched is not None:
            self._watched.cancel()
        self.channel = channel
        self._model_service = model_pb2_grpc.ModelServiceStub(channel)
        self._health = health_pb2_grpc.HealthStub(channel)

    async def probe(self) -> Probe:
        """Looks at the worker and at its load. Never raises, within seconds."""
        await asyncio.gather(self.look(), self.weigh())
        return self.last

    async def look(self) -> None:
        """Finds out what it serves and how it is.

        A worker that was well and is only late with an answer stays as it was for a while.
        """
        doubts = self._doubts
        try:
            with awaited_calls():
                found = await self._look()
        except aio.AioRpcError as error:
            if not self._is_only_late(error):
                reason = f"{error.code().name}: {error.details() or 'no answer'}"
                self.last = Probe(reason=reason)
        except CLOSED_CALL_ERRORS:
            self.last = CLOSED
        else:
            self.last = replace(found, status=self.last.status)
            self._well_at, self._cleared = time.monotonic(), doubts

    async def weigh(self) -> None:
        """Finds out its load. That is told by the model thread, between two forwards, and decides
        nothing about its health."""
        own_streams = self.own_streams
        try:
            with awaited_calls():
                status = await self._model_service.GetStatus(
                    model_pb2.ModelServiceGetStatusRequest(), timeout=PROBE_TIMEOUT_S
                )
        except (aio.AioRpcError, *CLOSED_CALL_ERRORS):
            return
        # It told them at some moment in between.
        own_streams = max(own_streams, self.own_streams)
        self.others = max(0, status.open_streams - own_streams)
        self.last = replace(self.last, status=status)

    @property
    def doubted(self) -> bool:
        """It failed somebody, and was not found well since."""
        return self._doubts > self._cleared

    def doubt(self) -> None:
        """It failed somebody: from now on it has to answer in time to be taken for well."""
        self._doubts += 1
        self._well_at = -math.inf

    async def watch(self, changed: Callable[[], None]) -> None:
        """Calls `changed` whenever its health does. Ends when it cannot be watched any more, or is
        reached by another channel."""
        request = health_pb2.HealthCheckRequest(service=self._health_name)
        last: int | None = None
        try:
            self._watched = self._health.Watch(request)
            with awaited_calls():
                async for answer in self._watched:
                    if last is not None and answer.status != last:
                        changed()
                    last = answer.status
        except (aio.AioRpcError, *CLOSED_CALL_ERRORS):
            changed()

    def _is_only_late(self, error: aio.AioRpcError) -> bool:
        return (
            error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            and not self.last.reason
            and time.monotonic() - self._well_at < LONGEST_SILENCE_S
        )

    async def _look(self) -> Probe:
        model, health = await asyncio.gather(
            self._model_service.GetModel(model_pb2.GetModelRequest(), timeout=PROBE_TIMEOUT_S),
            self._health.Check(
                health_pb2.HealthCheckRequest(service=self._health_name), timeout=PROBE_TIMEOUT_S
            ),
        )
        if health.status != health_pb2.HealthCheckResponse.SERVING:
            return Probe(model, reason="it is not serving: starting or draining")
        try:
            spoken_version(model)
        except PairingError as error:
            return Probe(model, reason=str(error))
        return Probe(model)
