"""A real server of the model service on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.rpc.server import Listener, RpcServer
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker.model_description import ModelDescription
from outrider.worker.model_service import Described, ModelServicer
from outrider.worker.slot import WorkerSlot

SERVICE = "outrider.v1.ModelService"


@dataclass(frozen=True)
class DescribedWorker:
    """A worker that is only a description."""

    description: ModelDescription

    async def status(self) -> model_pb2.ModelServiceGetStatusResponse:
        return model_pb2.ModelServiceGetStatusResponse(rounds=7, queue_depth=2)


ServeModel = Callable[[ModelServicer], Awaitable[aio.Channel]]


@pytest.fixture
async def serve_model() -> AsyncIterator[ServeModel]:
    """Serves a model servicer and opens a channel to it; both end with the test."""
    async with AsyncExitStack() as stack:

        async def serve(servicer: ModelServicer) -> aio.Channel:
            server = RpcServer(Listener("127.0.0.1:0"), service_names=[SERVICE])
            model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server.grpc_server)
            await server.start()
            stack.push_async_callback(server.drain, 0)
            channel = open_channel(server.address)
            stack.push_async_callback(channel.close)
            return channel

        yield serve


@pytest.fixture
def slot() -> WorkerSlot[Described]:
    """Where the servicer finds its model; empty at first."""
    return WorkerSlot()


Describe = Callable[[ModelDescription], None]


@pytest.fixture
def describe(slot: WorkerSlot[Described]) -> Describe:
    """Puts a model into the slot."""
    return lambda description: slot.fill(DescribedWorker(description))
