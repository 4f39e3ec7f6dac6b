"""From a GenerateRequest to a plan: every field checked, every default decided."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from coordinator.plan import GenerationPlan, is_coupled, is_greedy
from coordinator.speculation import SpeculationDefaults, speculation_terms
from coordinator.text.tokenizer import TargetTokenizer
from outrider.errors import InvalidRequest, ModelNotFound, NotSupported, OutOfRange
from outrider.rpc.access import current_caller
from outrider.rpc.validation import check_sampling
from outrider.v1 import common_pb2, generation_pb2, model_pb2

DEFAULT_MAX_NEW_TOKENS = 256
COUPLED = "coupled"
"""The feature of a target that judges by COUPLED."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a deployment allows and takes when a request does not say."""

    max_new_tokens: int
    speculation: SpeculationDefaults


class RequestPlanner:
    """Plans generations for one target model."""

    def __init__(
        self,
        target: model_pb2.GetModelResponse,
        tokenizer: TargetTokenizer | None,
        limits: RequestLimits,
    ) -> None:
        """`tokenizer` None: the model has none, prompts must be token ids."""
        self._target = target
        self._tokenizer = tokenizer
        self._limits = limits

    async def plan(self, request: generation_pb2.GenerateRequest) -> GenerationPlan:
        """The plan of one request.

        Raises InvalidRequest, OutOfRange, ModelNotFound or NotSupported.
        """
        if request.model not in ("", self._target.name):
            raise ModelNotFound(
                f"model: there is no {request.model[:80]!r} here, only {self._target.name!r}",
                field="model",
                allowed=self._target.name,
            )
        prompt = await self._prompt(request)
        room = self._target.context_length - len(prompt)
        if room < 1:
            raise OutOfRange(
                "prompt", f"1 to {self._target.context_length - 1} token ids", got=len(prompt)
            )
        max_new_tokens = self._max_new_tokens(request, room)
        self._check_ids("output_token_ids", request.output_token_ids)
        if len(request.output_token_ids) > max_new_tokens:
            raise InvalidRequest(
                "output_token_ids",
                f"at most max_new_tokens = {max_new_tokens} ids",
                got=len(request.output_token_ids),
            )
        sampling = self._sampling(request, max_new_tokens)
        return GenerationPlan(
            prompt_token_ids=tuple(prompt),
            continued_token_ids=tuple(prompt) if request.HasField("text") else (),
            resumed_token_ids=tuple(request.output_token_ids),
            max_new_tokens=max_new_tokens,
            sampling=sampling,
            speculation=speculation_terms(
                request.speculation,
                self._limits.speculation,
                max_draft_length=self._target.max_draft_length,
                bonus_free=is_coupled(sampling) or is_greedy(sampling),
            ),
            tenant=current_caller().tenant,
        )

    async def _prompt(self, request: generation_pb2.GenerateRequest) -> list[int]:
        kind = request.WhichOneof("prompt")
        if kind is None:
            raise InvalidRequest("prompt", "one of text, tokens and chat")
        if kind == "tokens":
            if not request.tokens.token_ids:
                raise InvalidRequest("tokens.token_ids", "at least one id")
            self._check_ids("tokens.token_ids", request.tokens.token_ids)
            return list(request.tokens.token_ids)
        if self._tokenizer is None:
            raise InvalidRequest("prompt", "tokens, since the model has no tokenizer", got=kind)
        if kind == "text":
            if not request.text:
                raise InvalidRequest("text", "not empty")
            token_ids = await self._tokenizer.encode(request.text)
        else:
            token_ids = await self._tokenizer.encode_chat(request.chat.messages)
        if not token_ids:
            raise InvalidRequest(kind, "a prompt of at least one token")
        return token_ids

    def _check_ids(self, field: str, token_ids: object) -> None:
        size = self._target.vocabulary_size
        for place, token_id in enumerate(token_ids):  # type: ignore[arg-type,var-annotated]
            if token_id >= size:
                raise InvalidRequest(f"{field}[{place}]", f"0 to {size - 1}", got=token_id)

    def _max_new_tokens(self, request: generation_pb2.GenerateRequest, room: int) -> int:
        if not request.HasField("max_new_tokens"):
            return min(DEFAULT_MAX_NEW_TOKENS, room, self._limits.max_new_tokens)
        asked = request.max_new_tokens
        if not 1 <= asked <= self._limits.max_new_tokens:
            raise InvalidRequest("max_new_tokens", f"1 to {self._limits.max_new_tokens}", got=asked)
        if asked > room:
            raise OutOfRange(
                "max_new_tokens", f"1 to {room} after a prompt of this length", got=asked
            )
        return asked

    def _sampling(
        self, request: generation_pb2.GenerateRequest, max_new_tokens: int
    ) -> common_pb2.SamplingParams:
        check_sampling(
            request.sampling,
            vocabulary_size=self._target.vocabulary_size,
            max_new_tokens=max_new_tokens,
        )
        sampling = common_pb2.SamplingParams()
        sampling.CopyFrom(request.sampling)
        sampling.verification = self._verification(request.sampling)
        if not sampling.HasField("seed"):
            sampling.seed = secrets.randbits(64)
        if not sampling.ignore_eos:
            stops = {*sampling.stop_token_ids, *self._target.eos_token_ids}
            sampling.ClearField("stop_token_ids")
            sampling.stop_token_ids.extend(sorted(stops))
        return sampling

    def _verification(
        self, sampling: common_pb2.SamplingParams
    ) -> common_pb2.Verification.ValueType:
        """Who sets a seed wants the same output again, whatever the draft does: COUPLED."""
        able = COUPLED in self._target.features
        if sampling.verification == common_pb2.VERIFICATION_COUPLED and not able:
            raise NotSupported(
                "sampling.verification: the target does not know COUPLED",
                field="sampling.verification",
                allowed="VERIFICATION_REJECTION",
            )
        if sampling.verification != common_pb2.VERIFICATION_UNSPECIFIED:
            return sampling.verification
        if sampling.HasField("seed") and able:
            return common_pb2.VERIFICATION_COUPLED
        return common_pb2.VERIFICATION_REJECTION
