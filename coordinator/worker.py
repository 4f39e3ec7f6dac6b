"""One worker as the coordinator sees it: what it serves, whether it may be used, and why not."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from coordinator.pairing import PairingError, spoken_version
from outrider.v1 import generation_pb2, model_pb2, model_pb2_grpc

PROBE_TIMEOUT_S = 2.0
LONGEST_SILENCE_S = 10.0


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


class Worker:
    """A worker's address, its channel and what the last look at it found."""

    def __init__(self, address: str, channel: aio.Channel, *, health_name: str) -> None:
        self.address = address
        self.channel = channel
        self.last = Probe(reason="not reached yet")
        self._health_name = health_name
        self._well_at = 0.0
        self._model_service = model_pb2_grpc.ModelServiceStub(channel)
        self._health = health_pb2_grpc.HealthStub(channel)

    async def probe(self) -> Probe:
        """Looks at the worker and remembers what it found. Never raises, within seconds.

        A worker that was well and is only late with an answer stays as it was for a while. Its
        load is told by the model thread, between two forwards, and decides nothing.
        """
        found, status = await asyncio.gather(self._look(), self._status(), return_exceptions=True)
        known = self.last.status if isinstance(status, BaseException) else status
        if isinstance(found, Probe):
            self.last = replace(found, status=known)
            self._well_at = time.monotonic()
        elif not isinstance(found, aio.AioRpcError):
            raise found
        elif not self._is_only_late(found):
            reason = f"{found.code().name}: {found.details() or 'no answer'}"
            self.last = Probe(reason=reason)
        return self.last

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

    async def _status(self) -> model_pb2.ModelServiceGetStatusResponse:
        return await self._model_service.GetStatus(
            model_pb2.ModelServiceGetStatusRequest(), timeout=PROBE_TIMEOUT_S
        )

    def to_message(self, *, refusal: str) -> generation_pb2.WorkerStatus:
        """The contract's form; `refusal` is a reason of the coordinator's own, or empty."""
        reason = self.last.reason or refusal
        return generation_pb2.WorkerStatus(
            address=self.address,
            reachable=self.last.reachable,
            usable=self.last.reachable and not reason,
            reason=reason,
            model=self.last.model,
            status=self.last.status,
        )
