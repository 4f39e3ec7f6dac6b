"""How many tokens of waiting prompts a step takes along."""

from __future__ import annotations

import math
from typing import Protocol

from outrider.engine.step_time import StepLoad, StepTimeFit, attended_by

SHORTEST = 32
LONGEST = 2048
UNKNOWN = 64
"""Until times are known."""
PATIENCE_ALONE = 2.0
"""Steps that a slice may cost when only prompts are read. Somebody who comes then waits for half
of it on average."""


class PrefillSlice(Protocol):
    """Tokens of prompts in one step, of all prompts together."""

    def tokens(self, *, small_tokens: int, context: int) -> int:
        """Beside small chunks of that many tokens, and behind a prefix of that length."""
        ...


class FixedSlice:
    """Always the same."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    def tokens(self, *, small_tokens: int, context: int) -> int:
        """As many as were asked for."""
        return self._tokens


class FittedSlice:
    """As many as make a step about twice as long as it is without them.

    So everybody else goes on at half speed at worst while a long prompt is read.
    """

    def __init__(self, fit: StepTimeFit) -> None:
        self._fit = fit

    def tokens(self, *, small_tokens: int, context: int) -> int:
        """A power of two."""
        if not self._fit.known:
            return UNKNOWN
        row_s = self._fit.row_seconds(context=context)
        rows = max(1, small_tokens)
        load = StepLoad(rows, attended_by(1, behind=context) * rows)
        room_s = self._fit.seconds(load) * (1.0 if small_tokens else PATIENCE_ALONE)
        if room_s >= LONGEST * row_s:
            return LONGEST
        return max(SHORTEST, 1 << round(math.log2(max(1.0, room_s / row_s))))
