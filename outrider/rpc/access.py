"""Who may call: asked of every call but those of health, before its handler or its message.

A server has one policy. What the policy says of a caller is there for handlers to read, with
`current_caller()`: each call runs in a context of its own, and what it starts inherits it.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote

import grpc
import structlog
from grpc import aio
from grpc_health.v1 import health

from outrider.errors import NotAllowed, OutriderError
from outrider.rpc.handlers import Behaviour, Context, Continuation, Handler, wrapped

HEALTH_PREFIX = f"/{health.SERVICE_NAME}/"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call.

    `name` tells callers apart, for fairness and for what is bound to one of them. `tenant` is
    whose data the call may touch; empty where callers show no key.
    """

    name: str = ""
    tenant: str = ""


NOBODY = Caller()
"""Who calls where no call is served."""

_current: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


def current_caller() -> Caller:
    """Who made the call that this code runs for; `NOBODY` outside of one."""
    return _current.get()


class AccessPolicy(Protocol):
    """Decides who may call a server."""

    def admit(self, context: Context) -> Caller:
        """Who calls. Raises Unauthenticated or NotAllowed."""


class OpenAccess:
    """Anyone may call; callers are told apart by the host they call from."""

    def admit(self, context: Context) -> Caller:
        """Raises nothing."""
        return Caller(name=peer_host(context))


OPEN_ACCESS = OpenAccess()


def peer_host(context: Context) -> str:
    """The host of the other end without its port, such as `10.0.0.7` or `::1`."""
    kind, _, address = unquote(context.peer() or "").partition(":")
    host, _, _ = address.rpartition(":") if kind in ("ipv4", "ipv6") else (address, "", "")
    return host.strip("[]")


class AccessInterceptor(aio.ServerInterceptor):
    """Lets nobody to a handler whom the policy does not admit.

    Goes behind the ErrorInterceptor and before anything that reads messages.
    """

    def __init__(self, policy: AccessPolicy) -> None:
        self._policy = policy
        self._refusals = _Refusals()

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Wraps the handler of one call."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(HEALTH_PREFIX):
            return handler
        around = wrapped(
            handler,
            call=lambda behaviour: self._guarded_call(behaviour, method),
            stream=lambda behaviour: self._guarded_stream(behaviour, method),
        )
        return around or grpc.stream_stream_rpc_method_handler(_refuse)

    def _admit(self, context: Context, method: str) -> None:
        try:
            _current.set(self._policy.admit(context))
        except OutriderError as refusal:
            self._refusals.tell(method=method, peer=peer_host(context), reason=refusal.reason)
            raise

    def _guarded_call(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def call(request: Any, context: Context) -> Any:
            self._admit(context, method)
            return await behaviour(request, context)

        return call

    def _guarded_stream(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
            self._admit(context, method)
            async with aclosing(behaviour(request, context)) as responses:
                async for response in responses:
                    yield response

        return stream


class _Refusals:
    """Logs refused calls, the first in each second by name and the others by their count."""

    def __init__(self) -> None:
        self._told_at = -math.inf
        self._untold = 0

    def tell(self, **refusal: str) -> None:
        """One more call was refused."""
        now = time.monotonic()
        if now - self._told_at < 1.0:
            self._untold += 1
            return
        log.warning("a call was refused", **refusal, untold_before=self._untold)
        self._told_at, self._untold = now, 0


async def _refuse(_request: Any, _context: Context) -> NoReturn:
    """Stands for a handler that cannot be guarded."""
    raise NotAllowed("no such call can be made here")
