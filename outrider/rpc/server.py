"""One way to run a gRPC server: limits, errors, health, reflection, listening, draining."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
import structlog
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from outrider.rpc.access import OPEN_ACCESS, AccessInterceptor, AccessPolicy
from outrider.rpc.error_interceptor import ErrorInterceptor
from outrider.rpc.health import DrainingHealth
from outrider.rpc.limits import MAX_MESSAGE_BYTES, server_options
from outrider.rpc.open_calls import OpenCalls
from outrider.rpc.request_size import RequestSizeInterceptor, transport_limit
from outrider.rpc.tls import TlsFiles
from outrider.rpc.watched_files import FilesError

log = structlog.get_logger(__name__)

LAST_STEPS_S = 2.0
"""How long handlers may take to free what they held once their calls are over."""

HEALTH_BYTES = 4096
"""A request for health is the name of a service."""

ServicerContext: TypeAlias = aio.ServicerContext[Any, Any]
Serving = health_pb2.HealthCheckResponse


class ListenError(Exception):
    """The address cannot be listened on, or not with these certificates."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a server listens, with which certificates, what it takes, and from whom.

    `max_receive_bytes` bounds one message; `connection_age_s` is how long a connection takes new
    calls (None: as long as it lasts). `health_address` is for health alone, without TLS and for
    everyone: for probes that have no certificate. Empty: there is none.
    """

    address: str
    tls: TlsFiles | None = None
    max_receive_bytes: int = MAX_MESSAGE_BYTES
    connection_age_s: float | None = None
    access: AccessPolicy = OPEN_ACCESS
    health_address: str = ""


class RpcServer:
    """A gRPC server that answers health and reflection from its first moment.

    Register servicers on `grpc_server`, then `start`. It is NOT_SERVING until `set_serving`.
    """

    def __init__(self, listener: Listener, *, service_names: Sequence[str]) -> None:
        """`service_names`: full names, such as `outrider.v1.DraftService`."""
        self._listener = listener
        self._health = DrainingHealth(tuple(service_names))
        self._open_calls = OpenCalls()
        self.grpc_server = aio.server(
            interceptors=[
                ErrorInterceptor(self._open_calls),
                AccessInterceptor(listener.access),
                RequestSizeInterceptor(listener.max_receive_bytes),
            ],
            options=server_options(
                max_receive_bytes=transport_limit(listener.max_receive_bytes),
                connection_age_s=listener.connection_age_s,
            ),
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self.grpc_server)
        shown = (*service_names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(shown, self.grpc_server)
        self._health_server: aio.Server | None = None
        self.port = 0
        self.health_port = 0

    @property
    def address(self) -> str:
        """host:port, the port being the real one after `start`."""
        host, _, _ = self._listener.address.rpartition(":")
        return f"{host}:{self.port}"

    async def start(self) -> None:
        """Listens and answers. Raises ListenError."""
        await self._health.set_all(Serving.NOT_SERVING)
        listener = self._listener
        try:
            credentials = listener.tls.server_credentials() if listener.tls else None
        except FilesError as error:
            raise ListenError(f"cannot listen on {listener.address}: {error}") from error
        self.port = _listen(self.grpc_server, listener.address, credentials)
        if listener.health_address:
            await self._start_health_server(listener.health_address)
        await self.grpc_server.start()

    async def _start_health_server(self, address: str) -> None:
        server = aio.server(options=server_options(max_receive_bytes=HEALTH_BYTES))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self.health_port = _listen(server, address, None)
        await server.start()
        self._health_server = server

    async def set_serving(self) -> None:
        """The services are ready."""
        await self._health.set_all(Serving.SERVING)

    async def set_not_serving(self) -> None:
        """The services are not ready, or no longer."""
        await self._health.set_all(Serving.NOT_SERVING)

    async def drain(self, grace_s: float) -> None:
        """NOT_SERVING at once; open calls may finish within `grace_s`, new ones are refused."""
        await self._health.drain()
        await self.grpc_server.stop(grace_s)
        if self._health_server is not None:
            await self._health_server.stop(None)
        await self._open_calls.wait_for_none(most_s=LAST_STEPS_S)


def _listen(server: aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> int:
    """The port that is taken. Raises ListenError."""
    try:
        port = (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address}: is the port in use?") from error
    if port == 0:
        raise ListenError(f"cannot listen on {address}: is the port in use?")
    return port


def stop_signal() -> asyncio.Event:
    """Set by SIGTERM and SIGINT; needs the running loop of the main thread."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
