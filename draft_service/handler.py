"""One draft stream's Rounds and Proposals: what goes on from what was sent before."""

from __future__ import annotations

from collections.abc import Sequence

from draft_service.draft_job import DraftJob, DraftResult, DraftTerms, TreeToken
from draft_service.messages import token_message
from draft_service.mirror import Mirror
from draft_service.reach import EndDrafting, GoOn, Reach
from outrider import telemetry
from outrider.engine.handles import StateLost
from outrider.engine.loop import Done
from outrider.errors import InvalidRequest
from outrider.prefix import extend_digest
from outrider.v1 import common_pb2, draft_pb2
from outrider.worker.answers import handle_message, timings_message
from outrider.worker.binding import Binding
from outrider.worker.checks import check_round
from outrider.worker.runtime import Runtime
from outrider.worker.stream import RoundHandler

DraftRuntime = Runtime[DraftJob, DraftResult | StateLost]

LONGEST_DRAFT = 256
MOST_BRANCHES = 64
LONGEST_BRANCH = 64

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
        self._mirror = Mirror()
        self._first_round = 0
        self._committed_length = 0
        self._names: list[int] = []
        self._next_name = 1

    def round_of(self, request: draft_pb2.DraftRequest) -> draft_pb2.DraftRound | None:
        """The Round in a message, if it holds one."""
        return request.round if request.HasField("round") else None

    def job(self, message: draft_pb2.DraftRound, binding: Binding) -> DraftJob:
        """The job of a round, below what was drafted already. Raises InvalidRequest, OutOfRange."""
        reach = self._reach(message)
        digest = _committed_digest(message)
        if digest is None:
            self._mirror.clear()
        else:
            self._mirror.commit(length=reach.committed_length, digest=digest)
        self._first_round = message.number
        self._committed_length = reach.committed_length
        self._names = self._mirror.names
        return DraftJob(
            handle_id=binding.handle_id,
            owner=binding.owner,
            terms=self._terms,
            base_length=message.base_length,
            prefix_digest=message.prefix_digest,
            committed_token_ids=list(message.committed_token_ids),
            known=self._mirror.chain,
            reach=reach,
        )

    async def go_on(self, message: draft_pb2.DraftRound, binding: Binding) -> bool:
        """Changes the reach of the drafting under way, if the round follows what it drafted."""
        reach = self._reach(message)
        digest = _committed_digest(message)
        if digest is None or not self._mirror.goes_on(length=reach.committed_length, digest=digest):
            return False
        if not await self._runtime.on_model_thread(GoOn(binding.owner, reach)):
            return False
        self._mirror.commit(length=reach.committed_length, digest=digest)
        return True

    async def end_soon(self, binding: Binding) -> None:
        """Ends the drafting under way before its next forward."""
        await self._runtime.on_model_thread(EndDrafting(binding.handle_id, binding.owner))

    def state_lost(self) -> None:
        """Begins anew: nothing that was sent is built upon."""
        self._mirror.clear()

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
        if self._mirror.empty and result.committed_digest is not None:
            self._mirror.commit(length=self._committed_length, digest=result.committed_digest)
        response.proposal.CopyFrom(
            draft_pb2.Proposal(
                tokens=self._hung(result.tokens),
                handle=handle_message(self._runtime, binding, length=result.kept_length),
                timings=timings_message(done.timings),
                done=done.last,
                queue_depth=self._runtime.loop.queue_depth,
            )
        )

    def _hung(self, tokens: Sequence[TreeToken]) -> list[common_pb2.DraftToken]:
        """Names tokens and says what they hang on, to the coordinator and to the mirror."""
        messages = []
        for each in tokens:
            name, self._next_name = self._next_name, self._next_name + 1
            message = token_message(each.token, node_id=name)
            parent = None if each.parent is None else self._names[each.parent]
            if parent is None:
                message.root_round = self._first_round
            else:
                message.parent_node_id = parent
            self._names.append(name)
            message.guess = each.guess
            self._mirror.add(name, each.token, parent=parent, guess=each.guess)
            messages.append(message)
        return messages

    def _reach(self, message: draft_pb2.DraftRound) -> Reach:
        """How far a round lets the draft go. Raises InvalidRequest or OutOfRange."""
        committed_length = message.base_length + len(message.committed_token_ids)
        until = max(committed_length, message.draft_until_length)
        if until - committed_length > LONGEST_DRAFT:
            raise InvalidRequest(
                "round.draft_until_length",
                f"at most {LONGEST_DRAFT} behind the committed length",
                got=message.draft_until_length,
            )
        if message.proposal_until_length > until:
            raise InvalidRequest(
                "round.proposal_until_length",
                "at most draft_until_length",
                got=message.proposal_until_length,
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
            committed_length,
            proposal_until=message.proposal_until_length or until,
            until=until,
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
