"""One draft stream's Rounds and Proposals: what goes on from what was sent before."""

from __future__ import annotations

from draft_service.draft_job import DraftJob, DraftResult, DraftTerms
from draft_service.orders import EndDrafting, GoOn, TakeUp
from draft_service.reach import Reach
from draft_service.sent_tokens import SentTokens
from outrider import telemetry
from outrider.branch_limits import LONGEST_BRANCH, MOST_BRANCHES
from outrider.engine.handles import StateLost
from outrider.engine.loop import Done
from outrider.errors import InvalidRequest
from outrider.prefix import extend_digest
from outrider.v1 import draft_pb2
from outrider.worker.answers import handle_message, timings_message
from outrider.worker.binding import Binding
from outrider.worker.checks import check_round
from outrider.worker.runtime import Runtime
from outrider.worker.stream import RoundHandler

DraftRuntime = Runtime[DraftJob, DraftResult | StateLost]

LONGEST_DRAFT = 256

MOST_HASHED = 512
"""A Round with more committed ids is begun anew: hashing them would hold up the event loop."""


class DraftHandler(
    RoundHandler[
        draft_pb2.DraftRequest, draft_pb2.DraftRound, DraftJob, DraftResult, draft_pb2.DraftResponse
    ]
):
    """Turns Rounds into drafting and its results into Proposals."""

    span_name = telemetry.DRAFT_ROUND_SPAN

    def __init__(self, runtime: DraftRuntime, terms: DraftTerms) -> None:
        self._runtime = runtime
        self._terms = terms
        self._sent = SentTokens()

    def round_of(self, request: draft_pb2.DraftRequest) -> draft_pb2.DraftRound | None:
        """The Round in a message, if it holds one."""
        return request.round if request.HasField("round") else None

    def job(self, message: draft_pb2.DraftRound, binding: Binding) -> DraftJob:
        """The job of a round, below what was drafted already. Raises InvalidRequest, OutOfRange."""
        reach = self._reach(message)
        self._sent.begin(
            message.number, length=reach.committed_length, digest=_committed_digest(message)
        )
        return DraftJob(
            self._sent.serial,
            handle_id=binding.handle_id,
            owner=binding.owner,
            terms=self._terms,
            base_length=message.base_length,
            prefix_digest=message.prefix_digest,
            committed_token_ids=list(message.committed_token_ids),
            known=self._sent.chain,
            reach=reach,
        )

    async def go_on(self, message: draft_pb2.DraftRound, binding: Binding) -> bool:
        """Has the drafting under way go on below what it drafted, or begin at another place."""
        reach = self._reach(message)
        length, digest = reach.committed_length, _committed_digest(message)
        if digest is None or not self._sent.follows(length=length, digest=digest):
            return await self._runtime.on_model_thread(TakeUp(self.job(message, binding)))
        if not await self._runtime.on_model_thread(GoOn(binding.owner, reach)):
            return False
        self._sent.commit(length=length, digest=digest)
        return True

    async def end_soon(self, binding: Binding) -> None:
        """Ends the drafting under way before its next forward."""
        await self._runtime.on_model_thread(EndDrafting(binding.handle_id, binding.owner))

    def state_lost(self) -> None:
        """Begins anew: nothing that was sent is built upon."""
        self._sent.clear()

    def drafted(self, message: draft_pb2.DraftRound, result: DraftResult) -> int:
        """Tokens that were drafted."""
        return len(result.tokens)

    def response(self, number: int) -> draft_pb2.DraftResponse:
        """An empty answer to that round."""
        return draft_pb2.DraftResponse(round_number=number)

    def fill(
        self,
        response: draft_pb2.DraftResponse,
        message: draft_pb2.DraftRound,
        done: Done[DraftResult],
        binding: Binding,
    ) -> None:
        """Words the proposal and counts it."""
        result = done.result
        self._runtime.counts.draft_tokens += len(result.tokens)
        self._runtime.counts.copied_tokens += sum(each.token.copied for each in result.tokens)
        response.round_number = result.number
        response.proposal.CopyFrom(
            draft_pb2.Proposal(
                tokens=self._sent.send(result),
                handle=handle_message(self._runtime, binding, length=result.kept_length),
                timings=timings_message(done.timings),
                done=done.last or result.replaced,
                queue_depth=self._runtime.loop.queue_depth,
            )
        )

    def _reach(self, message: draft_pb2.DraftRound) -> Reach:
        """How far a round lets the draft go. Raises InvalidRequest or OutOfRange."""
        committed_length = message.base_length + len(message.committed_token_ids)
        until = max(committed_length, message.draft_until_length)
        for field in ("draft_until_length", "copy_until_length"):
            if getattr(message, field) - committed_length > LONGEST_DRAFT:
                raise InvalidRequest(
                    f"round.{field}",
                    f"at most {LONGEST_DRAFT} behind the committed length",
                    got=getattr(message, field),
                )
        if message.together_until_length > until:
            raise InvalidRequest(
                "round.together_until_length",
                "at most draft_until_length",
                got=message.together_until_length,
            )
        if message.branches > MOST_BRANCHES:
            raise InvalidRequest("round.branches", f"0 to {MOST_BRANCHES}", got=message.branches)
        if message.branch_length > LONGEST_BRANCH:
            raise InvalidRequest(
                "round.branch_length", f"0 to {LONGEST_BRANCH}", got=message.branch_length
            )
        if not 0.0 <= message.acceptance <= 1.0:
            raise InvalidRequest("round.acceptance", "0 to 1", got=message.acceptance)
        check_round(
            message,
            self._runtime.description,
            vocabulary_size=self._terms.committed_vocabulary_size,
            extra=until - committed_length,
        )
        return Reach(
            message.number,
            committed_length,
            until=until,
            together_until=message.together_until_length,
            # A permission: where there is no room, copies end earlier.
            copy_until=min(message.copy_until_length, self._runtime.description.context_length),
            branches=message.branches,
            branch_length=message.branch_length,
            acceptance=message.acceptance,
        )


def _committed_digest(message: draft_pb2.DraftRound) -> int | None:
    """The digest of all committed ids; None where there are too many new ones."""
    if len(message.committed_token_ids) > MOST_HASHED:
        return None
    digest = message.prefix_digest
    for token_id in message.committed_token_ids:
        digest = extend_digest(digest, token_id)
    return digest
