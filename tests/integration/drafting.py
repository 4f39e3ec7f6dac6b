"""A draft's streams as a coordinator sees them: what came, hung on each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut, DraftRule, Proposer
from outrider.draft_law import CutLaw
from outrider.engine.columns import Columns
from outrider.engine.model import Model
from outrider.engine.sampling_options import SamplingOptions
from outrider.prefix import TokenPrefix
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_draft
from outrider.testing.model_process import start_worker_process
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import DraftStream, open_draft
from outrider.v1 import common_pb2, draft_pb2

SIZE = 8
SEED = 77
PROMPT = [1, 2, 3]
TABLE = random_table(seed=2)

Ids = tuple[int, ...]


def table_model(**fields: Any) -> TableModel:
    """The model of these tests; `fields` as of TableModel."""
    return TableModel(TABLE, **{"context_length": 256, **fields})


@asynccontextmanager
async def serving_from_a_process(build: Callable[[], Model]) -> AsyncIterator[aio.Channel]:
    """As `serving`, the model in another process; `build` can be pickled."""
    server = await start_worker_process(draft_kind(CandidateCut()), build)
    try:
        async with open_channel(server.rpc.address) as channel:
            yield channel
    finally:
        await server.stop(0)


@asynccontextmanager
async def serving(model: Model, **plan: Any) -> AsyncIterator[aio.Channel]:
    """A channel to a draft with that model."""
    server = await start_draft(WorkerPlan(model, **plan))
    try:
        async with open_channel(server.rpc.address) as channel:
            yield channel
    finally:
        await server.stop(0)


class Received:
    """All tokens of one stream: where they hang, and which answer they came in."""

    def __init__(self, stream: DraftStream) -> None:
        self.stream = stream
        self.drawn: dict[Ids, common_pb2.DraftToken] = {}
        """By the ids up to the token, itself included."""
        self.guesses: dict[Ids, common_pb2.DraftToken] = {}
        self.sizes: list[tuple[int, int]] = []
        """Of each proposal: the round it answered, and its tokens."""
        self.again = 0
        """Tokens that had come before: under way when another round was taken up."""
        self._rounds: dict[int, Ids] = {}
        self._paths: dict[int, Ids] = {}

    @classmethod
    async def opened(cls, channel: aio.Channel, **fields: Any) -> Received:
        """A stream after its Open."""
        return cls(
            await open_draft(
                channel, **{"derived_seed": SEED, "prompt_length": len(PROMPT), **fields}
            )
        )

    async def send(self, message: draft_pb2.DraftRequest, token_ids: Sequence[int]) -> None:
        """Sends a Round that commits these ids."""
        self._rounds[message.round.number] = tuple(token_ids)
        await self.stream.send(message)

    async def proposal(self) -> draft_pb2.Proposal:
        """The next proposal, hung up. Superseded rounds are passed over."""
        while True:
            answer = await self.stream.read()
            if answer.HasField("proposal"):
                break
            assert not answer.HasField("state_lost"), answer
        self.sizes.append((answer.round_number, len(answer.proposal.tokens)))
        for token in answer.proposal.tokens:
            self.hang(token)
        return answer.proposal

    async def until_done(self) -> draft_pb2.Proposal:
        """Reads proposals up to one that is done."""
        while not (proposal := await self.proposal()).done:
            pass
        return proposal

    def chain(self, token_ids: Sequence[int]) -> list[int]:
        """The drawn tokens that follow these ids."""
        path = tuple(token_ids)
        found = True
        while found:
            found = False
            for other in self.drawn:
                if len(other) == len(path) + 1 and other[:-1] == path:
                    path, found = other, True
        return list(path[len(token_ids) :])

    def check(self, rule: DraftRule = DraftRule.DRAWN, temperature: float = 1.0) -> None:
        """Each drawn token is the one draw that the table gives after what it hangs on."""
        proposer = Proposer(
            SamplingOptions(temperature=temperature),
            Columns(SIZE),
            prompt_length=len(PROMPT),
            derived_seed=SEED,
            cut=CandidateCut(),
            rule=rule,
        )
        for path, token in self.drawn.items():
            (expected,) = proposer.tokens([TABLE[path[-3], path[-2]]], [TokenPrefix(path[:-1])])
            assert token.token_id == expected.token_id
            if isinstance(expected.law, CutLaw):
                assert tuple(token.distribution.token_ids) == expected.law.token_ids
                assert tuple(token.distribution.weights) == expected.law.weights
            else:
                law = "point_mass" if expected.law else None
                assert token.WhichOneof("law") == law

    def hang(self, token: common_pb2.DraftToken) -> None:
        """Notes where a token hangs."""
        if token.WhichOneof("parent") == "root_round":
            before = self._rounds[token.root_round]
        else:
            before = self._paths[token.parent_node_id]
        path = (*before, token.token_id)
        assert token.node_id not in self._paths
        self._paths[token.node_id] = path
        kept = self.guesses if token.guess else self.drawn
        self.again += path in kept
        if token.guess:
            assert token.WhichOneof("law") is None
        else:
            assert {other for other in kept if other[:-1] == path[:-1]} <= {path}, "two drawn"
        kept.setdefault(path, token)
