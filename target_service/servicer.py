"""The target's gRPC service: an Open, then Rounds, each answered by a verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from outrider import telemetry
from outrider.engine.handles import StateLost
from outrider.engine.loop import Done
from outrider.errors import InvalidRequest
from outrider.rpc.server import ServicerContext
from outrider.v1 import common_pb2, target_pb2, target_pb2_grpc
from outrider.worker.answers import handle_message, timings_message
from outrider.worker.binding import Binding
from outrider.worker.checks import check_open, check_round, first_message
from outrider.worker.runtime import Runtime
from outrider.worker.sampling import sampling_options
from outrider.worker.slot import WorkerSlot
from outrider.worker.stream import RoundHandler, RoundStream
from target_service.decoding_run import DecodingRun, EndRun, RaiseLimit, until_length
from target_service.messages import proposed_token, rule_of
from target_service.verify_job import VerdictResult, VerifyJob, VerifyTerms

TargetRuntime = Runtime[VerifyJob, VerdictResult | StateLost]


class TargetServicer(target_pb2_grpc.TargetServiceServicer):
    """Judges draft tokens with the model in its slot."""

    def __init__(self, slot: WorkerSlot[TargetRuntime], *, max_draft_length: int) -> None:
        self._slot = slot
        self._max_draft_length = max_draft_length

    async def Verify(  # noqa: N802
        self,
        request_iterator: AsyncIterator[target_pb2.VerifyRequest],
        context: ServicerContext,
    ) -> AsyncIterator[target_pb2.VerifyResponse]:
        """One generation's stream."""
        with self._slot.stream() as runtime:
            # The stream is taken up: its caller may open the next.
            await context.send_initial_metadata(())
            first = await first_message(request_iterator)
            if not first.HasField("open"):
                raise InvalidRequest("open", "the first message of the stream")
            handler = VerifyHandler(
                runtime, _terms(first.open, runtime), max_draft_length=self._max_draft_length
            )
            answers = RoundStream(runtime, handler).serve(
                request_iterator, handle=first.open.handle, scope=first.open.cache_scope
            )
            async with aclosing(answers):
                async for answer in answers:
                    yield answer


class VerifyHandler(
    RoundHandler[
        target_pb2.VerifyRequest,
        target_pb2.VerifyRound,
        VerifyJob,
        VerdictResult,
        target_pb2.VerifyResponse,
    ]
):
    """Turns Rounds into verification jobs and their results into Verdicts."""

    span_name = telemetry.TARGET_ROUND_SPAN

    def __init__(
        self, runtime: TargetRuntime, terms: VerifyTerms, *, max_draft_length: int
    ) -> None:
        self._runtime = runtime
        self._terms = terms
        self._max_draft_length = max_draft_length
        self._run: DecodingRun | None = None

    def round_of(self, request: target_pb2.VerifyRequest) -> target_pb2.VerifyRound | None:
        """The Round in a message, if it holds one."""
        return request.round if request.HasField("round") else None

    def job(self, message: target_pb2.VerifyRound, binding: Binding) -> VerifyJob:
        """The job of a round. Raises InvalidRequest or OutOfRange."""
        drafted = len(message.draft_tokens)
        description = self._runtime.description
        check_round(
            message, description, vocabulary_size=description.vocabulary_size, extra=drafted
        )
        if drafted > self._max_draft_length:
            raise InvalidRequest(
                "round.draft_tokens", f"0 to {self._max_draft_length} tokens", got=drafted
            )
        if not drafted and not message.want_bonus:
            raise InvalidRequest("round.want_bonus", "true in a round without draft tokens")
        if drafted and message.decode_tokens:
            raise InvalidRequest(
                "round.decode_tokens", "0 in a round with draft tokens", got=message.decode_tokens
            )
        self._run = DecodingRun(message) if message.decode_tokens else None
        return VerifyJob(
            handle_id=binding.handle_id,
            owner=binding.owner,
            terms=self._terms,
            base_length=message.base_length,
            prefix_digest=message.prefix_digest,
            committed_token_ids=list(message.committed_token_ids),
            drafts=[proposed_token(token) for token in message.draft_tokens],
            want_bonus=message.want_bonus,
            until_length=until_length(message),
        )

    async def go_on(self, message: target_pb2.VerifyRound, binding: Binding) -> bool:
        """Raises the limit of the run under way, if that is what the round asks for."""
        if self._run is None or not self._run.agrees(message):
            return False
        raise_limit = RaiseLimit(
            binding.handle_id,
            binding.owner,
            base_length=message.base_length,
            prefix_digest=message.prefix_digest,
            until_length=until_length(message),
        )
        return await self._runtime.on_model_thread(raise_limit)

    async def end_soon(self, binding: Binding) -> None:
        """Ends the run under way, if there is one, at its next token."""
        if self._run is not None:
            await self._runtime.on_model_thread(EndRun(binding.owner))

    def drafted(self, message: target_pb2.VerifyRound, result: VerdictResult) -> int:
        """Draft tokens that were judged."""
        return 0 if result.invalid else len(message.draft_tokens)

    def response(self, number: int) -> target_pb2.VerifyResponse:
        """An empty answer to that round."""
        return target_pb2.VerifyResponse(round_number=number)

    def fill(
        self,
        response: target_pb2.VerifyResponse,
        message: target_pb2.VerifyRound,
        done: Done[VerdictResult],
        binding: Binding,
    ) -> None:
        """Words the verdict and counts it."""
        result, counts = done.result, self._runtime.counts
        if self._run is not None:
            self._run.extend(result.output_token_ids)
        counts.draft_tokens += self.drafted(message, result)
        counts.accepted_tokens += result.accepted
        invalid = None
        if result.invalid is not None:
            counts.draft_invalid_rounds += 1
            invalid = common_pb2.DraftInvalid(
                position=result.invalid.position, reason=result.invalid.reason
            )
        response.verdict.CopyFrom(
            target_pb2.Verdict(
                accepted=result.accepted,
                output_token_ids=result.output_token_ids,
                handle=handle_message(self._runtime, binding, length=result.kept_length),
                timings=timings_message(done.timings),
                draft_invalid=invalid,
                done=done.last,
                price=self._runtime.loop.price,
                queue_depth=self._runtime.loop.queue_depth,
                expected_acceptance=result.expected_acceptance,
            )
        )


def _terms(message: target_pb2.VerifyOpen, runtime: TargetRuntime) -> VerifyTerms:
    check_open(message, runtime.description, vocabulary_size=runtime.description.vocabulary_size)
    if not message.sampling.HasField("seed"):
        raise InvalidRequest("open.sampling.seed", "set: the coordinator makes one")
    return VerifyTerms(
        options=sampling_options(message.sampling),
        seed=message.sampling.seed,
        choice_index=message.choice_index,
        prompt_length=message.prompt_length,
        rule=rule_of(message.sampling.verification),
    )
