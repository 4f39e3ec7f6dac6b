"""Binds a stream to KV state for as long as it is open."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from outrider.engine.handles import HandleTable
from outrider.errors import InvalidRequest
from outrider.v1 import common_pb2
from outrider.worker.runtime import Runtime

LONGEST_SCOPE = 64


@dataclass(frozen=True, slots=True)
class Binding:
    """The state a stream works on, and the stream's own name as its owner."""

    handle_id: str
    owner: str


@asynccontextmanager
async def bound_handle(
    runtime: Runtime[Any, Any], requested: common_pb2.KvHandle, *, scope: bytes
) -> AsyncIterator[Binding]:
    """Pins the requested state, or new state where there is none of that name.

    Leaving in an orderly way (half-close) frees the state; any exception leaves it leased, so
    that a caller whose stream broke finds it again.
    """
    if len(scope) > LONGEST_SCOPE:
        raise InvalidRequest("open.cache_scope", f"at most {LONGEST_SCOPE} bytes", got=len(scope))
    owner = secrets.token_hex(8)
    ours = requested.replica_id == runtime.description.replica_id
    wanted = requested.handle_id if ours and requested.handle_id else None

    opened: list[str] = []

    def open_state(handles: HandleTable) -> str:
        opened.append(handles.open(wanted, owner=owner, scope=scope))
        return opened[0]

    def lease_opened(handles: HandleTable) -> None:
        for handle_id in opened:
            handles.lease(handle_id, owner=owner)

    try:
        handle_id = await runtime.on_model_thread(open_state)
    except asyncio.CancelledError:
        # The state is made all the same, before the model thread comes to this.
        _let_go(runtime, lease_opened)
        raise
    runtime.open_streams += 1
    try:
        yield Binding(handle_id, owner)
    except BaseException:
        _let_go(runtime, lease_opened)
        raise
    else:
        await runtime.on_model_thread(lambda handles: handles.release(handle_id, owner=owner))
    finally:
        runtime.open_streams -= 1


def _let_go(runtime: Runtime[Any, Any], action: Callable[[HandleTable], None]) -> None:
    """Hands the action to the model thread without waiting: the caller is being cancelled."""
    task = asyncio.ensure_future(runtime.on_model_thread(action))
    runtime.background.add(task)
    task.add_done_callback(runtime.background.discard)
