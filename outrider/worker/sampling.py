"""From the contract's sampling message to the engine's options: every default in its place."""

from __future__ import annotations

from outrider.engine.sampling_options import SamplingOptions
from outrider.v1 import common_pb2

_OPTIONAL_FIELDS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
)


def sampling_options(params: common_pb2.SamplingParams) -> SamplingOptions:
    """The options of one stream; a field that is unset takes its default, 0 stays 0."""
    set_fields = {field.name for field, _ in params.ListFields()}
    given = {name: getattr(params, name) for name in _OPTIONAL_FIELDS if name in set_fields}
    return SamplingOptions(
        **given,
        logit_bias=dict(params.logit_bias),
        stop_token_ids=tuple(params.stop_token_ids),
    )
