"""A draft session against a server that answers as a test says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from grpc import aio
from opentelemetry.trace import INVALID_SPAN

from coordinator.breaker import Breaker
from coordinator.draft_intake import DraftIntake, DraftLaw
from coordinator.draft_pace import DraftPace
from coordinator.draft_plan import DraftFacts, DraftPlan, ForesightFacts, RoundFacts, Situation
from coordinator.draft_session import DraftSession
from coordinator.draft_tree import DraftTree
from coordinator.replica import Replica
from outrider.prefix import TokenPrefix
from outrider.testing.standing import placed_on, standing_replica
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc, generation_pb2

REPLICA = "the-one"
PROMPT = (1, 2, 3)
PATIENCE_S = 60.0


class ToldPolicy:
    """Makes each round by the next of `plans`, the last one from then on; notes what it is told."""

    def __init__(self, *plans: DraftPlan) -> None:
        self._plans = list(plans)
        self.most_copies = 0
        self.rounds: list[RoundFacts] = []
        self.proposals: list[DraftFacts] = []
        self.foreseen: list[ForesightFacts] = []
        self.changes: list[generation_pb2.DraftLengthChange] = []

    def plan(self, situation: Situation) -> DraftPlan:
        return self._plans.pop(0) if len(self._plans) > 1 else self._plans[0]

    def copies(self, *, drawn: int, run: int) -> int:
        return self.most_copies

    def patience_s(self, *, tokens: int, next_in_s: float) -> float:
        return PATIENCE_S

    def round(self, facts: RoundFacts) -> None:
        self.rounds.append(facts)

    def drafted(self, facts: DraftFacts) -> None:
        self.proposals.append(facts)

    def foresaw(self, facts: ForesightFacts) -> None:
        self.foreseen.append(facts)


class TestedDraft(draft_pb2_grpc.DraftServiceServicer):
    """Notes what comes; sends what the test puts into the stream that is open last."""

    __test__ = False

    def __init__(self) -> None:
        self.rounds: list[draft_pb2.DraftRound] = []
        self.opens: list[draft_pb2.DraftOpen] = []
        self.half_closed = asyncio.Event()
        self._answers: asyncio.Queue[draft_pb2.DraftResponse | None] = asyncio.Queue()

    async def Draft(  # noqa: N802
        self, request_iterator: AsyncIterator[draft_pb2.DraftRequest], context: object
    ) -> AsyncIterator[draft_pb2.DraftResponse]:
        answers = self._answers = asyncio.Queue()

        async def read() -> None:
            async for request in request_iterator:
                if request.HasField("round"):
                    self.rounds.append(request.round)
                else:
                    self.opens.append(request.open)
            self.half_closed.set()
            answers.put_nowait(None)

        reading = asyncio.create_task(read())
        try:
            while (answer := await answers.get()) is not None:
                yield answer
        finally:
            reading.cancel()

    def send(self, answer: draft_pb2.DraftResponse) -> None:
        """Puts an answer into the stream."""
        self._answers.put_nowait(answer)

    def end(self) -> None:
        """Ends the stream in order."""
        self._answers.put_nowait(None)


@dataclass
class Bench:
    """All that a test needs."""

    draft: TestedDraft
    session: DraftSession
    tree: DraftTree
    prefix: TokenPrefix
    policy: ToldPolicy
    intake: DraftIntake
    replica: Replica

    @property
    def pace(self) -> DraftPace:
        """How fast the draft is taken to be."""
        return self.replica.pace

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something to become true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def asked(self, count: int) -> draft_pb2.DraftRound:
        """The last Round, once there are so many."""
        await self.until(lambda: len(self.draft.rounds) >= count)
        return self.draft.rounds[-1]

    async def send(self, *answers: draft_pb2.DraftResponse) -> None:
        """Sends answers, once something was asked."""
        await self.asked(1)
        for answer in answers:
            self.draft.send(answer)

    @property
    def ids(self) -> list[int]:
        """What lies ready."""
        return [token.token_id for token in self.tree.chain(100)]


def proposal(
    number: int,
    tokens: Sequence[common_pb2.DraftToken] = (),
    *,
    done: bool = True,
    replica: str = REPLICA,
    length: int = 1000,
) -> draft_pb2.DraftResponse:
    """An answer that brings tokens."""
    return draft_pb2.DraftResponse(
        round_number=number,
        proposal=draft_pb2.Proposal(
            tokens=tokens,
            handle=common_pb2.KvHandle(replica_id=replica, length=length),
            done=done,
        ),
    )


def chain(number: int, *token_ids: int, first_name: int = 1) -> list[common_pb2.DraftToken]:
    """Tokens below the root of a round."""
    tokens = []
    for place, token_id in enumerate(token_ids):
        token = common_pb2.DraftToken(node_id=first_name + place, token_id=token_id)
        if place == 0:
            token.root_round = number
        else:
            token.parent_node_id = first_name + place - 1
        token.distribution.token_ids.append(token_id)
        token.distribution.weights.append(1)
        tokens.append(token)
    return tokens


def lost(number: int, kept: int = 0) -> draft_pb2.DraftResponse:
    """An answer that there is no state."""
    return draft_pb2.DraftResponse(
        round_number=number, state_lost=common_pb2.StateLost(kept_length=kept)
    )


@asynccontextmanager
async def session_under_test(
    law: DraftLaw = DraftLaw.REPORTED,
    *,
    breaker: Breaker | None = None,
    clock: Callable[[], float] = time.perf_counter,
    features: Sequence[str] = (),
) -> AsyncIterator[Bench]:
    """A session whose draft is the test. `features` are those that the draft names."""
    draft = TestedDraft()
    server = aio.server()
    draft_pb2_grpc.add_DraftServiceServicer_to_server(draft, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    replica = standing_replica(f"127.0.0.1:{port}", replica_id=REPLICA, features=features)
    replica.breaker = breaker or replica.breaker
    try:
        prefix = TokenPrefix(PROMPT)
        tree, policy = DraftTree(prefix), ToldPolicy(DraftPlan(2))
        intake = DraftIntake(tree, policy, law=law)
        session = DraftSession(
            placed_on(replica),
            lambda _: draft_pb2.DraftOpen(protocol_version=1),
            prefix=prefix,
            tree=tree,
            intake=intake,
            span=INVALID_SPAN,
            end_later=lambda ending: ending.close(),
            clock=clock,
        )
        yield Bench(draft, session, tree, prefix, policy, intake, replica)
        await session.close()
    finally:
        await replica.close()
        await server.stop(None)
