"""The standard health service, with watchers that do not hold up the end of a server."""

from __future__ import annotations

import asyncio
from typing import Any

from grpc import aio
from grpc_health.v1 import health, health_pb2

LAST_WORD_S = 0.2
"""How long a watcher has to take the last status."""

_Servicer: Any = health.aio.HealthServicer


class DrainingHealth(_Servicer):  # type: ignore[misc]
    """`grpc.health.v1` for named services and for `""`, the process as a whole.

    A watching call goes on for ever by its nature, so a server that lets open calls finish would
    wait out its whole grace for it: `drain` tells watchers NOT_SERVING, then ends them.
    """

    def __init__(self, service_names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = ("", *service_names)
        self._draining = asyncio.Event()

    async def set_all(self, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        """One status for all names. Without effect once draining."""
        for name in self._names:
            await self.set(name, status)

    async def drain(self) -> None:
        """NOT_SERVING for good; watchers are told and ended."""
        await self.enter_graceful_shutdown()
        self._draining.set()

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: aio.ServicerContext[Any, Any]
    ) -> None:
        """Sends the status of a service now and at each change."""
        watching = asyncio.create_task(super().Watch(request, context))
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({watching, draining}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                await asyncio.wait({watching}, timeout=LAST_WORD_S)
        finally:
            watching.cancel()
            draining.cancel()
            await asyncio.gather(watching, draining, return_exceptions=True)
