"""Ranges of sampling parameters, at and beyond each border."""

from __future__ import annotations

import math
from typing import Any

import pytest

from outrider.errors import InvalidRequest
from outrider.rpc.validation import check_sampling
from outrider.v1 import common_pb2

VOCABULARY_SIZE = 100
MAX_NEW_TOKENS = 10


def check(params: common_pb2.SamplingParams, **limits: Any) -> None:
    check_sampling(params, vocabulary_size=VOCABULARY_SIZE, max_new_tokens=MAX_NEW_TOKENS, **limits)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0},
        {"temperature": 1e-12},
        {"temperature": 1e-4},
        {"temperature": 100},
        {"top_p": 1e-6},
        {"top_p": 1},
        {"min_p": 0},
        {"min_p": 1},
        {"repetition_penalty": 0.01},
        {"repetition_penalty": 10},
        {"presence_penalty": -2},
        {"frequency_penalty": 2},
        {"top_k": 0},
        {"top_k": VOCABULARY_SIZE},
        {"min_tokens": MAX_NEW_TOKENS},
        {"seed": 0},
        {"seed": 2**64 - 1},
        {"logit_bias": dict.fromkeys(range(VOCABULARY_SIZE), -100.0)},
        {"stop_token_ids": [VOCABULARY_SIZE - 1] * 64},
        {"verification": common_pb2.VERIFICATION_REJECTION},
    ],
)
def test_what_is_allowed(fields: dict[str, Any]) -> None:
    check(common_pb2.SamplingParams(**fields))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        *(
            ({name: bad}, name)
            for name in (
                "temperature",
                "top_p",
                "min_p",
                "repetition_penalty",
                "presence_penalty",
                "frequency_penalty",
            )
            for bad in (math.nan, math.inf, -math.inf)
        ),
        ({"temperature": -1e-6}, "temperature"),
        ({"temperature": 100.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": -0.5}, "top_p"),
        ({"top_p": 1.001}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": 1.1}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        ({"repetition_penalty": 10.5}, "repetition_penalty"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"top_k": VOCABULARY_SIZE + 1}, "top_k"),
        ({"top_k": 2**32 - 1}, "top_k"),
        ({"min_tokens": MAX_NEW_TOKENS + 1}, "min_tokens"),
        ({"logit_bias": {VOCABULARY_SIZE: 1.0}}, "logit_bias"),
        ({"logit_bias": {3: math.nan}}, "logit_bias"),
        ({"logit_bias": {3: -math.inf}}, "logit_bias"),
        ({"logit_bias": {3: 100.5}}, "logit_bias"),
        ({"logit_bias": dict.fromkeys(range(301), 0.0)}, "logit_bias"),
        ({"stop_token_ids": [VOCABULARY_SIZE]}, "stop_token_ids"),
        ({"stop_token_ids": [2**31 - 1]}, "stop_token_ids"),
        ({"stop_token_ids": [1] * 65}, "stop_token_ids"),
        ({"verification": 99}, "verification"),
    ],
)
def test_what_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(common_pb2.SamplingParams(**fields))
    assert caught.value.field.startswith(f"sampling.{name}")
    assert caught.value.allowed


@pytest.mark.parametrize("verification", common_pb2.Verification.values())
def test_every_rule_is_known(verification: common_pb2.Verification.ValueType) -> None:
    check(common_pb2.SamplingParams(verification=verification))


def test_the_path_of_the_field_is_the_callers() -> None:
    with pytest.raises(InvalidRequest, match=r"^open\.sampling\.top_p: must be above 0, up to 1"):
        check(common_pb2.SamplingParams(top_p=0), field="open.sampling")


def test_workers_take_the_eos_ids_that_a_coordinator_adds() -> None:
    params = common_pb2.SamplingParams(stop_token_ids=[1] * 70)
    check(params, max_stop_ids=70)
    with pytest.raises(InvalidRequest, match="at most 69 ids"):
        check(params, max_stop_ids=69)
