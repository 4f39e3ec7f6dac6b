"""The first messages of a generation's streams."""

from __future__ import annotations

from coordinator.plan import GenerationPlan
from outrider.randomness import Purpose, derive_seed
from outrider.v1 import common_pb2, draft_pb2, model_pb2, target_pb2

CHOICE_INDEX = 0


def verify_open(plan: GenerationPlan, protocol_version: int) -> target_pb2.VerifyOpen:
    """The target gets the request's sampling, seed included.

    `protocol_version` is the one that both sides speak.
    """
    return target_pb2.VerifyOpen(
        protocol_version=protocol_version,
        sampling=plan.sampling,
        choice_index=CHOICE_INDEX,
        prompt_length=len(plan.prompt_token_ids),
        cache_scope=plan.cache_scope,
    )


def draft_open(
    plan: GenerationPlan,
    protocol_version: int,
    *,
    mode: draft_pb2.DraftMode.ValueType,
    model: model_pb2.GetModelResponse,
) -> draft_pb2.DraftOpen:
    """The draft gets a seed of its own, never the request's, and none when it draws nothing.

    With COUPLED any draft gets that of the shared noise: it cannot steer the output there.
    `model` is the target's.
    """
    if plan.coupled:
        mode = draft_pb2.DRAFT_MODE_SAMPLED
    sampling = common_pb2.SamplingParams()
    sampling.CopyFrom(plan.sampling)
    sampling.ClearField("seed")
    message = draft_pb2.DraftOpen(
        protocol_version=protocol_version,
        sampling=sampling,
        choice_index=CHOICE_INDEX,
        prompt_length=len(plan.prompt_token_ids),
        cache_scope=plan.cache_scope,
        mode=mode,
        vocabulary_size=model.vocabulary_size,
    )
    if mode == draft_pb2.DRAFT_MODE_SAMPLED:
        purpose = Purpose.COUPLE if plan.coupled else Purpose.DRAFT
        message.derived_seed = derive_seed(purpose, seed=plan.seed, choice_index=CHOICE_INDEX)
    return message
