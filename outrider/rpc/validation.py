"""Checks of sampling parameters against the ranges that the contract states."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from outrider.errors import InvalidRequest
from outrider.v1 import common_pb2

MAX_BIASED_IDS = 300
MAX_STOP_IDS = 64
BIAS_RANGE = 100.0


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Numbers from `low` (itself allowed or not) to `high`."""

    low: float
    high: float
    low_allowed: bool = True

    def holds(self, value: float) -> bool:
        """False for NaN too."""
        above = value >= self.low if self.low_allowed else value > self.low
        return above and value <= self.high

    def __str__(self) -> str:
        first = f"{self.low:g}" if self.low_allowed else f"above {self.low:g}, up"
        return f"{first} to {self.high:g}"


def _as_sent(value: float) -> float:
    """The number that a float field carries for `value`: 32 bits of it."""
    sent: float = struct.unpack("f", struct.pack("f", value))[0]
    return sent


RANGES = {
    "temperature": NumberRange(0, 100),
    "top_p": NumberRange(0, 1, low_allowed=False),
    "min_p": NumberRange(0, 1),
    "repetition_penalty": NumberRange(_as_sent(0.01), 10),
    "presence_penalty": NumberRange(-2, 2),
    "frequency_penalty": NumberRange(-2, 2),
}


def check_sampling(
    params: common_pb2.SamplingParams,
    *,
    vocabulary_size: int,
    max_new_tokens: int,
    field: str = "sampling",
    max_stop_ids: int = MAX_STOP_IDS,
) -> None:
    """Raises InvalidRequest naming the first field that is out of range.

    `max_stop_ids` is larger on the workers' streams, where the coordinator has added EOS ids.
    """
    for name, allowed in RANGES.items():
        # Unset is the default, never 0.
        if params.HasField(name) and not allowed.holds(getattr(params, name)):  # type: ignore[arg-type]
            raise InvalidRequest(f"{field}.{name}", str(allowed), got=getattr(params, name))
    if params.top_k > vocabulary_size:
        raise InvalidRequest(f"{field}.top_k", f"0 to {vocabulary_size}", got=params.top_k)
    if params.min_tokens > max_new_tokens:
        raise InvalidRequest(f"{field}.min_tokens", f"0 to {max_new_tokens}", got=params.min_tokens)
    _check_bias(params, f"{field}.logit_bias", vocabulary_size)
    _check_stops(params, f"{field}.stop_token_ids", vocabulary_size, most=max_stop_ids)
    _check_verification(params, f"{field}.verification")


def _check_bias(params: common_pb2.SamplingParams, field: str, vocabulary_size: int) -> None:
    if len(params.logit_bias) > MAX_BIASED_IDS:
        raise InvalidRequest(field, f"at most {MAX_BIASED_IDS} ids", got=len(params.logit_bias))
    for token_id, bias in params.logit_bias.items():
        if token_id >= vocabulary_size:
            raise InvalidRequest(f"{field} ids", f"0 to {vocabulary_size - 1}", got=token_id)
        if math.isnan(bias) or abs(bias) > BIAS_RANGE:
            raise InvalidRequest(f"{field}[{token_id}]", "-100 to 100", got=bias)


def _check_stops(
    params: common_pb2.SamplingParams, field: str, vocabulary_size: int, *, most: int
) -> None:
    if len(params.stop_token_ids) > most:
        raise InvalidRequest(field, f"at most {most} ids", got=len(params.stop_token_ids))
    for place, token_id in enumerate(params.stop_token_ids):
        if token_id >= vocabulary_size:
            raise InvalidRequest(f"{field}[{place}]", f"0 to {vocabulary_size - 1}", got=token_id)


def _check_verification(params: common_pb2.SamplingParams, field: str) -> None:
    if params.verification not in common_pb2.Verification.values():
        raise InvalidRequest(field, "a known Verification", got=params.verification)
