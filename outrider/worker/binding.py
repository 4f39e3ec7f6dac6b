"""Binds a stream to KV state for as long as it is open.

What is asked of the model thread are plain values, so that it may be a process of its own.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from outrider.engine.handles import HandleTable
from outrider.errors import InvalidRequest, PoolUnavailable
from outrider.rpc.access import current_caller
from outrider.v1 import common_pb2
from outrider.worker.runtime import Runtime

LONGEST_SCOPE = 64


@dataclass(frozen=True, slots=True)
class Binding:
    """The state a stream works on, and the stream's own name as its owner."""

    handle_id: str
    owner: str


@dataclass(frozen=True, slots=True)
class OpenState:
    """Pins the wanted state if it is that caller's, or new state called `new_id`."""

    wanted: str | None
    new_id: str
    owner: str
    scope: bytes
    caller: str = ""

    def __call__(self, handles: HandleTable) -> Binding:
        """Runs on the model thread. Raises Exhausted."""
        handle_id = handles.open(
            self.wanted,
            owner=self.owner,
            scope=self.scope,
            caller=self.caller,
            new_id=self.new_id,
        )
        return Binding(handle_id, self.owner)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Keeps the state of a stream that broke, if it is still that stream's."""

    handle_id: str
    owner: str

    def __call__(self, handles: HandleTable) -> None:
        """Runs on the model thread."""
        handles.lease(self.handle_id, owner=self.owner)


@dataclass(frozen=True, slots=True)
class ReleaseState:
    """Frees the state of a stream that ended in order, if it is still that stream's."""

    handle_id: str
    owner: str

    def __call__(self, handles: HandleTable) -> None:
        """Runs on the model thread."""
        handles.release(self.handle_id, owner=self.owner)


@asynccontextmanager
async def opening_handle(
    runtime: Runtime[Any, Any], requested: common_pb2.KvHandle, *, scope: bytes
) -> AsyncIterator[asyncio.Future[Binding]]:
    """Pins the requested state, or new state where the caller has none of that name.

    The model thread does so between two forwards; the block has to wait for it. Leaving in an
    orderly way (half-close) frees the state; any exception leaves it leased, so that a caller whose
    stream broke finds it again.
    """
    if len(scope) > LONGEST_SCOPE:
        raise InvalidRequest("open.cache_scope", f"at most {LONGEST_SCOPE} bytes", got=len(scope))
    ours = requested.replica_id == runtime.description.replica_id
    wanted = requested.handle_id if ours and requested.handle_id else None
    state = OpenState(
        wanted,
        new_id=secrets.token_hex(16),
        owner=secrets.token_hex(8),
        scope=scope,
        caller=current_caller().name,
    )
    opening = asyncio.create_task(_open(runtime, state))
    try:
        yield opening
    except BaseException:
        if not opening.done():
            opening.cancel()
            # The state is made all the same, before the model thread comes to this.
            for handle_id in filter(None, (state.wanted, state.new_id)):
                _let_go(runtime, LeaseState(handle_id, state.owner))
        elif _is_bound(opening):
            _let_go(runtime, LeaseState(opening.result().handle_id, state.owner))
        raise
    else:
        await runtime.on_model_thread(ReleaseState(opening.result().handle_id, state.owner))
    finally:
        if _is_bound(opening):
            runtime.open_streams -= 1


async def _open(runtime: Runtime[Any, Any], state: OpenState) -> Binding:
    binding = await runtime.on_model_thread(state)
    runtime.open_streams += 1
    return binding


def _is_bound(opening: asyncio.Task[Binding]) -> bool:
    """It has pinned state; it was neither refused nor cancelled."""
    return opening.done() and not opening.cancelled() and opening.exception() is None


def _let_go(runtime: Runtime[Any, Any], action: LeaseState) -> None:
    """Hands the action to the model thread without waiting: the caller is being cancelled."""

    async def act() -> None:
        with suppress(PoolUnavailable):  # With the model thread, all its states are gone.
            await runtime.on_model_thread(action)

    task = asyncio.create_task(act())
    runtime.background.add(task)
    task.add_done_callback(runtime.background.discard)
