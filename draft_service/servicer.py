"""The draft's gRPC service: an Open, then Rounds, each answered by a proposal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from draft_service.drafting import DraftJob, DraftResult, DraftTerms
from draft_service.messages import draft_tokens
from outrider import telemetry
from outrider.engine.handles import StateLost
from outrider.engine.loop import Done
from outrider.errors import InvalidRequest
from outrider.rpc.server import ServicerContext
from outrider.v1 import draft_pb2, draft_pb2_grpc
from outrider.worker.answers import handle_message, timings_message
from outrider.worker.binding import Binding
from outrider.worker.checks import check_open, check_round, first_message
from outrider.worker.runtime import Runtime
from outrider.worker.sampling import sampling_options
from outrider.worker.slot import WorkerSlot
from outrider.worker.stream import RoundHandler, RoundStream

DraftRuntime = Runtime[DraftJob, DraftResult | StateLost]

LONGEST_DRAFT = 256


class DraftServicer(draft_pb2_grpc.DraftServiceServicer):
    """Drafts tokens with the model in its slot."""

    def __init__(self, slot: WorkerSlot[DraftRuntime]) -> None:
        self._slot = slot

    async def Draft(  # noqa: N802
        self,
        request_iterator: AsyncIterator[draft_pb2.DraftRequest],
        context: ServicerContext,
    ) -> AsyncIterator[draft_pb2.DraftResponse]:
        """One generation's stream."""
        runtime = self._slot.get()
        first = await first_message(request_iterator)
        if not first.HasField("open"):
            raise InvalidRequest("open", "the first message of the stream")
        handler = DraftHandler(runtime, _terms(first.open, runtime))
        answers = RoundStream(runtime, handler).serve(
            request_iterator, handle=first.open.handle, scope=first.open.cache_scope
        )
        async with aclosing(answers):
            async for answer in answers:
                yield answer


class DraftHandler(
    RoundHandler[
        draft_pb2.DraftRequest, draft_pb2.DraftRound, DraftJob, DraftResult, draft_pb2.DraftResponse
    ]
):
    """Turns Rounds into drafting jobs and their results into Proposals."""

    span_name = telemetry.DRAFT_ROUND_SPAN

    def __init__(self, runtime: DraftRuntime, terms: DraftTerms) -> None:
        self._runtime = runtime
        self._terms = terms
        self._next_node_id = 1

    def round_of(self, request: draft_pb2.DraftRequest) -> draft_pb2.DraftRound | None:
        """The Round in a message, if it holds one."""
        return request.round if request.HasField("round") else None

    def job(self, message: draft_pb2.DraftRound, binding: Binding) -> DraftJob:
        """The job of a round. Raises InvalidRequest or OutOfRange."""
        committed_length = message.base_length + len(message.committed_token_ids)
        extra = max(0, message.draft_until_length - committed_length)
        if extra > LONGEST_DRAFT:
            raise InvalidRequest(
                "round.draft_until_length",
                f"at most {LONGEST_DRAFT} behind the committed length",
                got=message.draft_until_length,
            )
        check_round(
            message,
            self._runtime.description,
            vocabulary_size=self._terms.committed_vocabulary_size,
            extra=extra,
        )
        return DraftJob(
            handle_id=binding.handle_id,
            owner=binding.owner,
            terms=self._terms,
            base_length=message.base_length,
            prefix_digest=message.prefix_digest,
            committed_token_ids=list(message.committed_token_ids),
            until_length=message.draft_until_length,
        )

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
        result, counts = done.result, self._runtime.counts
        counts.draft_tokens += len(result.tokens)
        first_node_id = self._next_node_id
        self._next_node_id += len(result.tokens)
        response.proposal.CopyFrom(
            draft_pb2.Proposal(
                tokens=draft_tokens(
                    result.tokens, root_round=message.number, first_node_id=first_node_id
                ),
                handle=handle_message(self._runtime, binding, length=result.kept_length),
                timings=timings_message(done.timings),
                done=True,
                queue_depth=self._runtime.loop.queue_depth,
            )
        )


def _terms(message: draft_pb2.DraftOpen, runtime: DraftRuntime) -> DraftTerms:
    own_size = runtime.description.vocabulary_size
    check_open(message, runtime.description, vocabulary_size=max(own_size, message.vocabulary_size))
    if message.sampling.HasField("seed"):
        raise InvalidRequest("open.sampling.seed", "unset: a draft never gets the request's seed")
    if message.mode not in draft_pb2.DraftMode.values():
        raise InvalidRequest("open.mode", "a known DraftMode", got=message.mode)
    greedy = message.mode == draft_pb2.DRAFT_MODE_GREEDY
    if not greedy and not message.HasField("derived_seed"):
        raise InvalidRequest("open.derived_seed", "set unless drafts are greedy")
    return DraftTerms(
        options=sampling_options(message.sampling),
        derived_seed=None if greedy else message.derived_seed,
        prompt_length=message.prompt_length,
        vocabulary_size=min(own_size, message.vocabulary_size or own_size),
        committed_vocabulary_size=message.vocabulary_size or own_size,
    )
