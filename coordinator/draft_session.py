"""One generation's dealings with its draft. They cannot fail a request: there are tokens or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from grpc import aio
from opentelemetry.trace import Span

from coordinator.calls import CLOSED_CALL_ERRORS, out_of_time
from coordinator.draft_dialogue import DraftDialogue
from coordinator.draft_intake import DraftIntake
from coordinator.draft_plan import DraftPlan
from coordinator.draft_seat import DraftSeat
from coordinator.draft_stream import DraftStream, UnlawfulDraftError
from coordinator.draft_tree import DraftTree
from coordinator.pairing import PairingError
from coordinator.placement import Placement
from coordinator.replica import Replica
from outrider.errors import InternalFailure, NumericalFailure, PoolUnavailable
from outrider.prefix import TokenPrefix
from outrider.rpc.status import remote_error
from outrider.v1 import draft_pb2, model_pb2

LONGEST_OVERDUE_S = 0.5
"""After a wait in vain: how long its tokens may still be missing when there is another draft."""
REASONS_TO_REST = ("", PoolUnavailable.reason, InternalFailure.reason)
"""A stream that ended for one of these tells that the draft is not well; "": the network's."""

log = structlog.get_logger(__name__)


class DraftSession:
    """Keeps a draft at work below a growing prefix; what it sends hangs on the tree.

    A commit does not wait for its answer. Whatever goes wrong with the stream, it is given up, and
    one to another draft is opened at once, or to the same one after a pause, longer each time; the
    tokens that it brought stay.
    """

    def __init__(
        self,
        placement: Placement,
        open_message: Callable[[Replica], draft_pb2.DraftOpen],
        *,
        prefix: TokenPrefix,
        tree: DraftTree,
        intake: DraftIntake,
        span: Span,
        end_later: Callable[[Coroutine[Any, Any, None]], None],
        deadline: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`placement`: the drafts that fit. `span`: the generation's. `end_later` takes the orderly
        end of a stream that was left. `deadline`: until when the session may last, in seconds of
        time.perf_counter. `clock` gives those that its pauses go by."""
        self._seat = DraftSeat(placement, clock=clock)
        self._dialogue = DraftDialogue(
            seat=self._seat, prefix=prefix, tree=tree, intake=intake, span=span
        )
        self._asked = self._dialogue.asked
        self._open_message = open_message
        self._deadline = deadline
        self._end_later = end_later
        self._tree = tree
        self._stream: DraftStream | None = None
        self._bytes = 0
        self.failed_numerically = 0
        """Times that a draft's model gave no numbers."""

    @property
    def ready(self) -> bool:
        """There is a draft that may be asked."""
        return self._seat.ready

    @property
    def bytes(self) -> int:
        """Of all messages after the first round's."""
        return self._bytes + (self._stream.bytes if self._stream is not None else 0)

    @property
    def moves(self) -> int:
        """Times that another draft took the place of one that failed or was left."""
        return self._seat.moves

    @property
    def replays(self) -> int:
        """Times that a draft did not have the state and was sent the prefix again."""
        return self._dialogue.replays

    @property
    def context_length(self) -> int:
        """Most ids of one sequence at the draft that is asked next; 0: there is none."""
        return self.model.context_length if self.model is not None else 0

    @property
    def model(self) -> model_pb2.GetModelResponse | None:
        """What the draft serves that is asked next; None: there is none."""
        replica = self._seat.replica or self._seat.next()
        return replica.model if replica is not None else None

    @property
    def next_in_s(self) -> float:
        """When the next token may come, seconds from now; inf: none is under way."""
        return self._asked.next_in_s

    def commit(self, plan: DraftPlan) -> None:
        """Tells the draft all that is committed by now, and how far to draft below it."""
        self._dialogue.aim(plan)
        if self._stream is not None and self._silent:
            self._fail(rest=True)
        elif self._seat.is_to_be_left:
            self._leave()
        if self._stream is None:
            self._open_stream()
        self._dialogue.ask()

    async def arrival(self, timeout_s: float) -> bool:
        """Waits for the next proposal, or the stream's end; False when neither came in time."""
        self._asked.awaited = True
        rung = await self._dialogue.bell.wait(timeout_s)
        # A proposal that came in the moment in which the time was up has said so.
        if not rung and self._asked.awaited:
            self._asked.overdue = True
        return not self._asked.overdue

    def missed(self) -> None:
        """It was waited for as long as may be, and nothing came."""
        if self._seat.missed():
            self._fail(rest=True)

    async def close(self) -> None:
        """Half-closes, so that the draft frees the state at once."""
        stream = self._stream
        self._let_go()
        self._asked.clear()
        self._seat.leave()
        if stream is not None:
            await stream.close()

    @property
    def _silent(self) -> bool:
        """It says nothing any more: sooner where there is another to go to."""
        if self._asked.gone_quiet:
            return True
        return self._asked.overdue_s > LONGEST_OVERDUE_S and self._seat.has_another

    def _open_stream(self) -> None:
        moves = self._seat.moves
        replica = self._seat.take()
        if replica is None:
            return
        if self._seat.moves > moves:
            self._asked.overdue = False
        left_s = None
        if self._deadline is not None:
            left_s = max(0.0, self._deadline - time.perf_counter())
        try:
            stream = DraftStream(
                replica.peer,
                self._open_message(replica),
                on_answer=self._dialogue.take,
                on_end=self._ended,
                timeout_s=left_s,
            )
        except (PairingError, *CLOSED_CALL_ERRORS):
            # Its process or its channel is gone since it was chosen.
            replica.openings.give_back()
            self._fail(rest=False)
            return
        replica.openings.opened(stream.call)
        self._stream = stream
        self._dialogue.begin(stream.send)

    def _ended(self, error: BaseException) -> None:
        """The stream is over, and not by this session's own doing."""
        remote = remote_error(error) if isinstance(error, aio.AioRpcError) else None
        if remote is not None and remote.reason == NumericalFailure.reason:
            self.failed_numerically += 1
            replica = self._seat.replica
            log.warning("a draft's model gives no numbers", address=replica and replica.address)
        # What the draft refuses this generation says nothing of others.
        broke = remote is not None and remote.reason in REASONS_TO_REST
        if out_of_time(self._deadline):
            self._leave()
        else:
            self._fail(rest=broke or isinstance(error, (UnlawfulDraftError, *CLOSED_CALL_ERRORS)))

    def _fail(self, *, rest: bool) -> None:
        """Gives the draft up; the next attempt there waits, longer each time.

        `rest`: others keep away from it too.
        """
        if self._stream is not None:
            self._stream.abandon()
        self._seat.fail(rest=rest)
        self._drop_stream()

    def _leave(self) -> None:
        """Goes away from a draft that is well as far as is known."""
        if self._stream is not None:
            self._end_later(self._stream.close())
        if not self._seat.believed:
            self._tree.clear()
        self._seat.leave()
        self._drop_stream()

    def _drop_stream(self) -> None:
        self._let_go()
        self._dialogue.end()

    def _let_go(self) -> None:
        if self._stream is not None:
            self._bytes += self._stream.bytes
        self._stream = None
