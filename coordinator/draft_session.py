"""One generation's stream to its draft. It cannot fail a request: it only has tokens or not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog
from grpc import aio

from coordinator.calls import CLOSED_CALL_ERRORS, Peer, finish_call
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc

DraftCall: TypeAlias = "aio.StreamStreamCall[draft_pb2.DraftRequest, draft_pb2.DraftResponse]"

log = structlog.get_logger(__name__)

MAX_REPLAYS_PER_ROUND = 3
FIRST_BACKOFF_S = 0.25
LONGEST_BACKOFF_S = 5.0


@dataclass(frozen=True, slots=True)
class Drafted:
    """Draft tokens of one round, in draw order, and where the draft's time went."""

    tokens: Sequence[common_pb2.DraftToken] = ()
    timings: common_pb2.Timings = field(default_factory=common_pb2.Timings)


class DraftGoneError(Exception):
    """The draft ended the stream in an orderly way, without having been asked to."""


@dataclass(slots=True)
class _Asked:
    """A round under way: its number, what was committed then, and the task that awaits it."""

    number: int
    committed_length: int
    answer: asyncio.Task[draft_pb2.DraftResponse]
    overdue: bool = False


class DraftSession:
    """Asks for draft tokens after a growing prefix, within a deadline.

    Whatever goes wrong, `propose` answers None and the round goes on without draft tokens. A
    draft that has missed a deadline is not waited for again until that answer has come.
    """

    def __init__(
        self,
        peer: Callable[[], Peer | None],
        open_message: draft_pb2.DraftOpen,
        *,
        timeout_s: float,
    ) -> None:
        """`peer` gives a draft that fits, or None while there is none."""
        self._peer = peer
        self._open = open_message
        self._timeout_s = timeout_s
        self._call: DraftCall | None = None
        self._replica_id = ""
        self._asked: _Asked | None = None
        self._number = 0
        self._kept_length = 0
        self._committed_length = 0
        self._drafted_ids: list[int] = []
        self._backoff_s = FIRST_BACKOFF_S
        self._retry_at = 0.0
        self.stale_proposals = 0
        self.replays = 0

    def read_ahead(self, prefix: TokenPrefix, *, trace: common_pb2.TraceContext) -> None:
        """Lets the draft read the prefix without waiting for it."""
        if self._asked is None and self._may_try():
            self._ask(prefix, until_length=0, trace=trace)

    async def propose(
        self, prefix: TokenPrefix, draft_length: int, *, trace: common_pb2.TraceContext
    ) -> Drafted | None:
        """At most `draft_length` tokens after all of `prefix`; None when there are none in time."""
        deadline = time.monotonic() + self._timeout_s
        if self._asked is not None and not await self._catch_up(self._asked, deadline):
            return None
        for _ in range(1 + MAX_REPLAYS_PER_ROUND):
            if not self._may_try():
                return None
            asked = self._ask(prefix, until_length=len(prefix) + draft_length, trace=trace)
            answer = await self._answer(asked, deadline)
            if answer is None:
                return None
            if answer.WhichOneof("answer") == "proposal":
                tokens = _chain(answer.proposal.tokens, asked.number)[:draft_length]
                if self._open.mode == draft_pb2.DRAFT_MODE_GREEDY:
                    tokens = as_point_masses(tokens)
                return Drafted(tokens, answer.proposal.timings)
        return None

    async def close(self) -> None:
        """Half-closes, so that the draft frees the state at once."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.answer.cancel()
            await asyncio.gather(asked.answer, return_exceptions=True)
        if self._call is not None:
            call, self._call = self._call, None
            if asked is not None:
                call.cancel()
            else:
                await finish_call(call)

    def _may_try(self) -> bool:
        return self._call is not None or time.monotonic() >= self._retry_at

    async def _catch_up(self, asked: _Asked, deadline: float) -> bool:
        """Takes the answer of an earlier round; False while it is still to come."""
        if asked.overdue and not asked.answer.done():
            return False
        counts_as_stale = asked.overdue
        answer = await self._answer(asked, deadline)
        if answer is not None and counts_as_stale:
            self.stale_proposals += 1
        return self._asked is None

    def _ask(
        self, prefix: TokenPrefix, *, until_length: int, trace: common_pb2.TraceContext
    ) -> _Asked:
        self._number += 1
        base_length = self._base_length(prefix)
        message = draft_pb2.DraftRequest(
            round=draft_pb2.DraftRound(
                number=self._number,
                base_length=base_length,
                prefix_digest=prefix.digest(base_length),
                committed_token_ids=prefix.token_ids[base_length:],
                draft_until_length=until_length,
                trace=trace,
            )
        )
        answer = asyncio.create_task(self._exchange(message))
        self._asked = _Asked(self._number, len(prefix), answer)
        return self._asked

    def _base_length(self, prefix: TokenPrefix) -> int:
        """How much of the draft's state is still right: committed ids, then drafted ones that
        were committed as drafted."""
        length = self._committed_length
        for drafted, committed in zip(self._drafted_ids, prefix.token_ids[length:], strict=False):
            if drafted != committed:
                break
            length += 1
        return min(length, self._kept_length, len(prefix) - 1)

    async def _exchange(self, message: draft_pb2.DraftRequest) -> draft_pb2.DraftResponse:
        """Sends a round, opening the stream first where there is none, and awaits its answer."""
        if self._call is None:
            peer = self._peer()
            if peer is None:
                raise DraftGoneError
            self._replica_id = peer.replica_id
            self._call = draft_pb2_grpc.DraftServiceStub(peer.channel).Draft()
            await self._call.write(draft_pb2.DraftRequest(open=self._open))
        call = self._call
        await call.write(message)
        while True:
            answer = await call.read()
            if not isinstance(answer, draft_pb2.DraftResponse):
                raise DraftGoneError
            if answer.round_number == message.round.number and answer.WhichOneof("answer") in (
                "proposal",
                "state_lost",
            ):
                if answer.HasField("proposal"):
                    self._check_replica(answer.proposal)
                return answer

    def _check_replica(self, proposal: draft_pb2.Proposal) -> None:
        """A process that took the place of the paired one is not used before it is paired too."""
        if proposal.handle.replica_id != self._replica_id:
            raise DraftGoneError

    async def _answer(self, asked: _Asked, deadline: float) -> draft_pb2.DraftResponse | None:
        """The answer to a round, if it comes before the deadline and is not an error."""
        remaining = max(0.0, deadline - time.monotonic())
        await asyncio.wait({asked.answer}, timeout=remaining)
        if not asked.answer.done():
            asked.overdue = True
            return None
        self._asked = None
        try:
            answer = asked.answer.result()
        except (aio.AioRpcError, DraftGoneError, asyncio.CancelledError, *CLOSED_CALL_ERRORS):
            self._disconnect()
            return None
        except Exception:
            log.exception("a draft's answer could not be read")
            self._disconnect()
            return None
        self._backoff_s = FIRST_BACKOFF_S
        if answer.WhichOneof("answer") == "state_lost":
            self.replays += 1
            self._kept_length = min(self._kept_length, answer.state_lost.kept_length)
            return answer
        self._committed_length = asked.committed_length
        self._drafted_ids = [token.token_id for token in answer.proposal.tokens]
        self._kept_length = answer.proposal.handle.length
        return answer

    def _disconnect(self) -> None:
        """Forgets the stream; the next attempt waits, longer each time."""
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._kept_length = 0
        self._committed_length = 0
        self._drafted_ids = []
        self._retry_at = time.monotonic() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)


def _chain(
    tokens: Sequence[common_pb2.DraftToken], round_number: int
) -> list[common_pb2.DraftToken]:
    """The drawn tokens that hang on each other from the round's root on, parents dropped."""
    chain: list[common_pb2.DraftToken] = []
    parent: int | None = None
    for token in tokens:
        if token.guess:
            continue
        hangs = (
            token.WhichOneof("parent") == "root_round" and token.root_round == round_number
            if parent is None
            else token.WhichOneof("parent") == "parent_node_id" and token.parent_node_id == parent
        )
        if not hangs:
            break
        parent = token.node_id
        chain.append(_without_place(token))
    return chain


def _without_place(token: common_pb2.DraftToken) -> common_pb2.DraftToken:
    """The token as the target takes it: its place in the chain says what it continues.

    Changed in place: a copy would be parsed anew.
    """
    token.ClearField("node_id")
    token.ClearField("parent_node_id")
    token.ClearField("root_round")
    token.DiscardUnknownFields()
    return token


def as_point_masses(
    tokens: Sequence[common_pb2.DraftToken],
) -> list[common_pb2.DraftToken]:
    """The tokens of a pool that is not trusted: whatever law came with them is not used."""
    point_mass = common_pb2.PointMass()
    return [
        common_pb2.DraftToken(token_id=token.token_id, point_mass=point_mass) for token in tokens
    ]
