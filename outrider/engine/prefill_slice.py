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

    So everybody else goes on at half speed at worst while a long prompt is read. No slice is more
    than twice as long as the last: times of such steps are known before there is a longer one.
    """

    def __init__(self, fit: StepTimeFit) -> None:
        self._fit = fit
        self._last = UNKNOWN

    def tokens(self, *, small_tokens: int, context: int) -> int:
        """A power of two."""
        if self._fit.known:
            rows = max(1, small_tokens)
            load = StepLoad(rows, attended_by(1, behind=context) * rows)
            room_s = self._fit.seconds(load) * (1.0 if small_tokens else PATIENCE_ALONE)
            row_s = self._fit.row_seconds(context=context)
            fitting = LONGEST if room_s >= LONGEST * row_s else _nearest_power(room_s / row_s)
            self._last = max(SHORTEST, min(fitting, 2 * self._last, LONGEST))
        return self._last


def _nearest_power(number: float) -> int:
    """The power of two nearest to it by ratio; at least 1."""
    return 1 << round(math.log2(max(1.0, number)))
