"""A draft that changes what an honest one proposes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from outrider.testing.cluster import LOOPBACK, Cluster, WorkerPlan, running_cluster
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from tests.integration.draft_channel import drafting_through
from tests.integration.undisturbed import table

Tamper = Callable[[common_pb2.DraftToken], None]


class TamperedDraft:
    """Stands between coordinator and a real draft and changes each token of its proposals."""

    def __init__(self, address: str, tamper: Tamper) -> None:
        self._channel = aio.insecure_channel(address)
        self._tamper = tamper

    async def Draft(  # noqa: N802
        self, requests: AsyncIterator[draft_pb2.DraftRequest], context: Any
    ) -> AsyncIterator[draft_pb2.DraftResponse]:
        call = draft_pb2_grpc.DraftServiceStub(self._channel).Draft(requests)
        async for response in call:
            for token in response.proposal.tokens:
                self._tamper(token)
            yield response


@asynccontextmanager
async def tampered_cluster(tamper: Tamper) -> AsyncIterator[Cluster]:
    """Pairs with an honest draft, then streams through a draft that lies."""
    async with running_cluster(WorkerPlan(table()), WorkerPlan(table())) as cluster:
        assert cluster.draft is not None
        server = aio.server()
        draft_pb2_grpc.add_DraftServiceServicer_to_server(
            TamperedDraft(cluster.draft.rpc.address, tamper),  # type: ignore[arg-type]
            server,
        )
        port = server.add_insecure_port(LOOPBACK)
        await server.start()
        channel = aio.insecure_channel(f"127.0.0.1:{port}")
        try:
            with drafting_through(cluster, channel):
                yield cluster
        finally:
            await channel.close()
            await server.stop(None)
