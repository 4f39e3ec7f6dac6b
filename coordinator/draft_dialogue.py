"""What one generation asks of its draft and what comes of the answers, stream after stream."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry.trace import Span

from coordinator import drafters
from coordinator.bell import Bell
from coordinator.draft_intake import DraftIntake
from coordinator.draft_plan import DraftPlan
from coordinator.draft_rounds import AskedRound, AskedRounds
from coordinator.draft_seat import DraftSeat
from coordinator.draft_stream import DraftGoneError, UnlawfulDraftError
from coordinator.draft_tree import MAX_NODES, DraftTree
from coordinator.replica import Replica
from coordinator.tracing import DraftTrace
from coordinator.worker_time import WorkerTime
from outrider.prefix import TokenPrefix
from outrider.v1 import draft_pb2

MAX_REPLAYS_IN_A_ROW = 3


class DraftDialogue:
    """Sends rounds without waiting for answers; what they bring hangs on the tree."""

    def __init__(
        self,
        *,
        seat: DraftSeat,
        prefix: TokenPrefix,
        tree: DraftTree,
        intake: DraftIntake,
        span: Span,
    ) -> None:
        """`seat`: who is asked. `span`: the generation's."""
        self._seat = seat
        self._prefix = prefix
        self._tree = tree
        self._intake = intake
        self._span = span
        self._send: Callable[[draft_pb2.DraftRound], None] | None = None
        self._began = 0.0
        self._number = 0
        self._kept_length = 0
        self._plan = DraftPlan(0)
        self._together_until = self._draft_until = self._copy_until = self._furthest = 0
        self._replays_in_a_row = 0
        self.asked = AskedRounds()
        self.bell = Bell()
        """Rung by every proposal, and by the end of a stream."""
        self.replays = 0
        """Times that a draft did not have the state and was sent the prefix again."""

    def begin(self, send: Callable[[draft_pb2.DraftRound], None]) -> None:
        """Over a new stream from now on, of which the draft knows nothing yet."""
        self._send = send
        self._began = time.perf_counter()
        self._kept_length = self._replays_in_a_row = 0

    def end(self) -> None:
        """That stream is over. The tokens that it brought stay."""
        self._send = None
        self.asked.clear()
        self._tree.cut_off()
        self.bell.ring()

    def aim(self, plan: DraftPlan) -> None:
        """How far to draft below what is committed by now."""
        self._plan = plan
        length = len(self._prefix)
        self._together_until = length + (plan.together or plan.draft_length)
        self._draft_until = length + plan.draft_length + plan.ahead
        self._copy_until = self._draft_until + plan.copies if plan.copies else 0
        self._furthest = max(self._furthest, self._draft_until, self._copy_until)

    def ask(self) -> None:
        """Tells the draft all that is committed by now, if there is a stream to it."""
        replica = self._seat.replica
        if self._send is None or replica is None:
            return
        length, pace = len(self._prefix), replica.pace
        base_length = min(self._kept_length, length - 1)
        copies = self._copy_until if drafters.copies(replica.model) else 0
        copies_alone = copies > length >= self._draft_until
        missing = max(1, self._together_until - length - self._tree.depth)
        drawing_s = 0.0 if copies_alone else missing * pace.token_s
        self._number += 1
        asked = AskedRound(
            self._number,
            committed_length=length,
            due_s=pace.round_trip_s + drawing_s,
            idle=not self.asked.any,
            trace=DraftTrace(self._span),
            copies_alone=copies_alone and self._tree.depth == 0,
        )
        self._tree.begin_round(asked.number)
        self.asked.ask(asked, continues=self._tree.depth > 0)
        together = min(self._together_until, self._draft_until)
        self._send(
            draft_pb2.DraftRound(
                number=asked.number,
                base_length=base_length,
                prefix_digest=self._prefix.digest(base_length),
                committed_token_ids=self._prefix.token_ids[base_length:],
                draft_until_length=self._draft_until,
                together_until_length=together if together > length else 0,
                branches=self._plan.branches,
                branch_length=self._plan.branch_length,
                acceptance=self._plan.acceptance,
                copy_until_length=copies,
                trace=asked.trace.context,
            )
        )

    def take(self, answer: draft_pb2.DraftResponse) -> None:
        """Takes an answer. Raises DraftGoneError to give the stream up."""
        asked = self.asked.heard(answer.round_number)
        if asked is None:
            return
        kind = answer.WhichOneof("answer")
        if kind == "proposal":
            self._propose(asked, answer.proposal)
        elif kind == "state_lost":
            self._replay(asked, kept_length=answer.state_lost.kept_length)
        elif kind == "superseded":
            self.asked.end(asked.number)

    def _propose(self, asked: AskedRound, proposal: draft_pb2.Proposal) -> None:
        replica = self._seat.replica
        if replica is None or proposal.handle.replica_id != self._seat.replica_id:
            # A process that took the place of the paired one is not used before it is paired too.
            raise DraftGoneError
        if len(proposal.tokens) > MAX_NODES:
            # No tree could hold them, and reading them would keep everybody waiting.
            self._intake.refuse(proposal.tokens)
            raise UnlawfulDraftError
        depth, overdue = self._tree.depth, self.asked.overdue
        self._hang(asked, proposal, replica)
        self._tree.answered(asked.number)
        self.asked.reached(asked, next_in_s=replica.pace.token_s)
        if proposal.done:
            self.asked.end(asked.number)
        self._kept_length = min(proposal.handle.length, asked.committed_length)
        if self._tree.depth > depth:
            # Tokens of use tell of a sound draft; answers without them may go on for ever.
            self._replays_in_a_row = 0
            self._seat.served(in_time=not overdue)
        self.bell.ring()

    def _hang(self, asked: AskedRound, proposal: draft_pb2.Proposal, replica: Replica) -> None:
        # Whatever it says, it has not worked longer than there was a stream.
        stream_s = time.perf_counter() - self._began
        spent = WorkerTime.reported(proposal.timings).within(stream_s)
        token_s = replica.pace.token_s
        offered = asked.offered(proposal.tokens)
        round_trip_s = asked.round_trip_s(proposal.tokens, spent=spent, token_s=token_s)
        if round_trip_s is not None:
            replica.pace.travelled(round_trip_s)
        asked.trace.proposed(proposal)
        self._intake.take(
            proposal.tokens,
            source=replica,
            until_length=self._furthest,
            spent=spent,
            round_trip_s=round_trip_s,
            offered=offered,
        )

    def _replay(self, asked: AskedRound, *, kept_length: int) -> None:
        """The draft has lost the state: it gets again what it no longer has."""
        self._kept_length = min(self._kept_length, kept_length)
        self.asked.end(asked.number)
        if asked.number < self._number:
            # The later round is answered in the same way, or by tokens.
            return
        self._replays_in_a_row += 1
        if self._replays_in_a_row > MAX_REPLAYS_IN_A_ROW:
            raise DraftGoneError
        self.replays += 1
        self.ask()
