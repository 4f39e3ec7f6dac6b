"""The draft's gRPC service: an Open, then Rounds, each answered by a proposal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from draft_service.draft_job import DraftTerms
from draft_service.handler import DraftHandler, DraftRuntime
from draft_service.proposal import DraftRule
from outrider.errors import InvalidRequest
from outrider.rpc.server import ServicerContext
from outrider.v1 import common_pb2, draft_pb2, draft_pb2_grpc
from outrider.worker.checks import check_open, first_message
from outrider.worker.sampling import sampling_options
from outrider.worker.slot import WorkerSlot
from outrider.worker.stream import RoundStream


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
        with self._slot.stream() as runtime:
            # The stream is taken up: its caller may open the next.
            await context.send_initial_metadata(())
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
    coupled = message.sampling.verification == common_pb2.VERIFICATION_COUPLED
    return DraftTerms(
        options=sampling_options(message.sampling),
        rule=DraftRule.COUPLED if coupled else DraftRule.DRAWN,
        derived_seed=None if greedy else message.derived_seed,
        prompt_length=message.prompt_length,
        vocabulary_size=min(own_size, message.vocabulary_size or own_size),
        committed_vocabulary_size=message.vocabulary_size or own_size,
    )
