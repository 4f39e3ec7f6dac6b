"""One generation's dealings with its draft. They cannot fail a request: there are tokens or not."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry.trace import Span

from coordinator.backoff import Backoff
from coordinator.bell import Bell
from coordinator.calls import Peer
from coordinator.draft_intake import DraftIntake
from coordinator.draft_pace import DraftPace
from coordinator.draft_plan import DraftPlan
from coordinator.draft_rounds import AskedRound, AskedRounds
from coordinator.draft_stream import DraftGoneError, DraftStream
from coordinator.draft_tree import MAX_NODES, DraftTree
from coordinator.tracing import DraftTrace
from coordinator.worker_time import WorkerTime
from outrider.prefix import TokenPrefix
from outrider.v1 import draft_pb2

MAX_REPLAYS_IN_A_ROW = 3


class DraftSession:
    """Keeps a draft at work below a growing prefix; what it sends hangs on the tree.

    A commit does not wait for its answer. Whatever goes wrong with the stream, it is given up and
    opened anew later, each time after a longer pause; the tokens that it brought stay.
    """

    def __init__(
        self,
        peer: Callable[[], Peer | None],
        open_message: draft_pb2.DraftOpen,
        *,
        prefix: TokenPrefix,
        tree: DraftTree,
        intake: DraftIntake,
        pace: DraftPace,
        span: Span,
    ) -> None:
        """`peer` gives a draft that fits, or None while there is none. `span`: the generation's."""
        self._peer = peer
        self._open = open_message
        self._prefix = prefix
        self._tree = tree
        self._intake = intake
        self._pace = pace
        self._span = span
        self._stream: DraftStream | None = None
        self._replica_id = ""
        self._asked = AskedRounds()
        self._number = 0
        self._kept_length = 0
        self._plan = DraftPlan(0)
        self._together_until = self._draft_until = self._furthest = 0
        self._replays_in_a_row = 0
        self._bell = Bell()
        self._backoff = Backoff()
        self._opened_at = 0.0
        self.replays = 0

    @property
    def ready(self) -> bool:
        """There is a draft that may be asked."""
        return (self._stream is not None or self._may_open) and self._peer() is not None

    @property
    def next_in_s(self) -> float:
        """When the next token may come, seconds from now; inf: none is under way."""
        return self._asked.next_in_s

    def commit(self, plan: DraftPlan) -> None:
        """Tells the draft all that is committed by now, and how far to draft below it."""
        self._plan = plan
        length = len(self._prefix)
        self._together_until = length + (plan.together or plan.draft_length)
        self._draft_until = length + plan.draft_length + plan.ahead
        self._furthest = max(self._furthest, self._draft_until)
        if self._stream is not None and self._asked.gone_quiet:
            self._stream.abandon()
            self._disconnect()
            self._pace.silence.failed()
        if self._stream is None and self._may_open:
            self._open_stream()
        self._ask()

    async def arrival(self, timeout_s: float) -> bool:
        """Waits for the next proposal, or the stream's end; False when neither came in time."""
        self._asked.overdue = True
        rung = await self._bell.wait(timeout_s)
        # A proposal that came in the moment in which the time was up has said so.
        return rung or not self._asked.overdue

    async def close(self) -> None:
        """Half-closes, so that the draft frees the state at once."""
        stream, self._stream = self._stream, None
        self._asked.clear()
        if stream is not None:
            await stream.close()

    @property
    def _may_open(self) -> bool:
        return self._backoff.over and self._pace.silence.over

    def _ask(self) -> None:
        if self._stream is None:
            return
        length = len(self._prefix)
        base_length = min(self._kept_length, length - 1)
        missing = max(1, self._together_until - length - self._tree.depth)
        self._number += 1
        asked = AskedRound(
            self._number,
            committed_length=length,
            due_s=self._pace.round_trip_s + missing * self._pace.token_s,
            idle=not self._asked.any,
            trace=DraftTrace(self._span),
        )
        self._tree.begin_round(asked.number)
        self._asked.ask(asked, continues=self._tree.depth > 0)
        self._stream.send(
            draft_pb2.DraftRound(
                number=asked.number,
                base_length=base_length,
                prefix_digest=self._prefix.digest(base_length),
                committed_token_ids=self._prefix.token_ids[base_length:],
                draft_until_length=self._draft_until,
                together_until_length=self._together_until if self._together_until > length else 0,
                branches=self._plan.branches,
                branch_length=self._plan.branch_length,
                acceptance=self._plan.acceptance,
                trace=asked.trace.context,
            )
        )

    def _open_stream(self) -> None:
        peer = self._peer()
        if peer is None:
            return
        self._replica_id = peer.replica_id
        self._opened_at = time.perf_counter()
        self._kept_length = self._replays_in_a_row = 0
        self._stream = DraftStream(peer, self._open, on_answer=self._take, on_end=self._disconnect)

    def _take(self, answer: draft_pb2.DraftResponse) -> None:
        """Takes an answer. Raises DraftGoneError to give the stream up."""
        asked = self._asked.heard(answer.round_number)
        if asked is None:
            return
        kind = answer.WhichOneof("answer")
        if kind == "proposal":
            self._propose(asked, answer.proposal)
        elif kind == "state_lost":
            self._replay(asked, kept_length=answer.state_lost.kept_length)
        elif kind == "superseded":
            self._asked.end(asked.number)

    def _propose(self, asked: AskedRound, proposal: draft_pb2.Proposal) -> None:
        if proposal.handle.replica_id != self._replica_id:
            # A process that took the place of the paired one is not used before it is paired too.
            raise DraftGoneError
        if len(proposal.tokens) > MAX_NODES:
            # No tree could hold them, and reading them would keep everybody waiting.
            self._intake.refuse(proposal.tokens)
            raise DraftGoneError
        # Whatever it says, it has not worked longer than there was a stream.
        stream_s = time.perf_counter() - self._opened_at
        spent = WorkerTime.reported(proposal.timings).within(stream_s)
        round_trip_s = asked.round_trip_s(proposal.tokens, spent=spent, token_s=self._pace.token_s)
        if round_trip_s is not None:
            self._pace.travelled(round_trip_s)
        asked.trace.proposed(proposal)
        depth = self._tree.depth
        self._intake.take(
            proposal.tokens, until_length=self._furthest, spent=spent, round_trip_s=round_trip_s
        )
        self._tree.answered(asked.number)
        self._asked.reached(asked, next_in_s=self._pace.token_s)
        if proposal.done:
            self._asked.end(asked.number)
        self._kept_length = min(proposal.handle.length, asked.committed_length)
        if self._tree.depth > depth:
            # Tokens of use tell of a sound draft; answers without them may go on for ever.
            self._replays_in_a_row = 0
            self._backoff.succeeded()
            self._pace.silence.succeeded()
        self._bell.ring()

    def _replay(self, asked: AskedRound, *, kept_length: int) -> None:
        """The draft has lost the state: it gets again what it no longer has."""
        self._kept_length = min(self._kept_length, kept_length)
        self._asked.end(asked.number)
        if asked.number < self._number:
            # The later round is answered in the same way, or by tokens.
            return
        self._replays_in_a_row += 1
        if self._replays_in_a_row > MAX_REPLAYS_IN_A_ROW:
            raise DraftGoneError
        self.replays += 1
        self._ask()

    def _disconnect(self) -> None:
        """The stream is over; the next attempt waits, longer each time."""
        self._stream = None
        self._asked.clear()
        self._tree.cut_off()
        self._backoff.failed()
        self._bell.ring()
