"""Drafts that answer by a plan of mischief, whatever they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from grpc import aio

from coordinator.draft_tree import DraftTree
from outrider.testing.cluster import LOOPBACK, Cluster, WorkerPlan, running_cluster
from outrider.testing.scripted import TableModel
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from tests.integration.draft_channel import drafting_through


@dataclass(slots=True)
class Asked:
    """What a hostile draft knows of its stream, and chance."""

    random: Random
    vocabulary_size: int
    replica_id: str
    rounds: list[draft_pb2.DraftRound] = field(default_factory=list)
    names: int = 0

    def token(self, **fields: Any) -> common_pb2.DraftToken:
        """One that any draft might send, by a new name, right below the committed ids."""
        self.names += 1
        size = self.vocabulary_size
        token = common_pb2.DraftToken(
            **{
                "node_id": self.names,
                "token_id": self.random.randrange(size),
                "root_round": self.rounds[-1].number,
                **fields,
            }
        )
        if token.WhichOneof("law") is None:
            token.distribution.token_ids.extend(range(size))
            token.distribution.weights.extend([65535 // size] * size)
        return token

    def chain(self, count: int) -> list[common_pb2.DraftToken]:
        """Tokens that follow each other."""
        tokens = [self.token()]
        while len(tokens) < count:
            tokens.append(self.token(parent_node_id=self.names))
        return tokens

    def proposal(
        self, tokens: list[common_pb2.DraftToken], *, number: int | None = None, done: bool = False
    ) -> draft_pb2.DraftResponse:
        """An answer to the last round, or to another."""
        return draft_pb2.DraftResponse(
            round_number=self.rounds[-1].number if number is None else number,
            proposal=draft_pb2.Proposal(
                tokens=tokens,
                handle=common_pb2.KvHandle(replica_id=self.replica_id),
                done=done,
            ),
        )


Mischief = Callable[[Asked], Iterator[draft_pb2.DraftResponse]]
"""What is answered to one more round."""


class HostileDraft:
    """Serves the stream of a draft that has been paired."""

    def __init__(self, mischief: Mischief, *, vocabulary_size: int, replica_id: str) -> None:
        self._mischief = mischief
        self._vocabulary_size = vocabulary_size
        self._replica_id = replica_id
        self._streams = 0
        self.answers = 0

    async def Draft(  # noqa: N802
        self, requests: AsyncIterator[draft_pb2.DraftRequest], context: Any
    ) -> AsyncIterator[draft_pb2.DraftResponse]:
        self._streams += 1
        asked = Asked(Random(self._streams), self._vocabulary_size, self._replica_id)
        async for request in requests:
            if request.HasField("round"):
                asked.rounds.append(request.round)
                for answer in self._mischief(asked):
                    self.answers += 1
                    yield answer
                    # Else one stream would keep the process to itself.
                    await asyncio.sleep(0)


@asynccontextmanager
async def hostile_draft(cluster: Cluster, mischief: Mischief) -> AsyncIterator[HostileDraft]:
    """A hostile draft in the place of one that was paired."""
    assert cluster.draft is not None
    description = cluster.draft.runtime.description
    hostile = HostileDraft(
        mischief,
        vocabulary_size=description.vocabulary_size,
        replica_id=description.replica_id,
    )
    server = aio.server()
    draft_pb2_grpc.add_DraftServiceServicer_to_server(hostile, server)  # type: ignore[arg-type]
    port = server.add_insecure_port(LOOPBACK)
    await server.start()
    channel = aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        with drafting_through(cluster, channel):
            yield hostile
    finally:
        await channel.close()
        await server.stop(None)


@asynccontextmanager
async def hostile_cluster(
    target: TableModel, mischief: Mischief, **settings: Any
) -> AsyncIterator[tuple[Cluster, HostileDraft]]:
    """Pairs with an honest draft, then streams through a hostile one."""
    plans = WorkerPlan(target), WorkerPlan(TableModel(target.table))
    async with (
        running_cluster(*plans, **settings) as cluster,
        hostile_draft(cluster, mischief) as hostile,
    ):
        yield cluster, hostile


@dataclass(slots=True)
class TreeSizes:
    """The largest that any draft tree became."""

    nodes: int = 0
    names: int = 0
    passed: int = 0
    rounds: int = 0

    def look(self, tree: DraftTree) -> None:
        """Before a token is added."""
        self.nodes = max(self.nodes, tree.size)
        self.names = max(self.names, len(tree._nodes))
        self.passed = max(self.passed, len(tree._passed))
        self.rounds = max(self.rounds, len(tree._rounds))
