"""How long a step takes, learnt from the steps that ran, and the price of one more row."""

from __future__ import annotations

import math
from dataclasses import dataclass

from outrider.engine.least_squares import solve, solve_without_negatives

MEMORY = 0.99
"""What each step keeps of the weight of those before it; the first ones keep less."""
AXES = range(3)
TOKEN_UNIT = 8.0
ATTENDED_UNIT = 8.0 * 512.0
CLIP = 3.0
"""Errors count up to this many times the usual one."""
LEAST_SCALE = 0.05
"""The usual error is taken to be no less than this part of the prediction."""
SCALE_STEP = 0.05
ENOUGH = 0.5
"""How much must be known of the cost of a token, beyond what is assumed."""
PRICE_STEP = 0.05


@dataclass(frozen=True, slots=True)
class StepLoad:
    """What one step read: `tokens`, and over all of them the positions they attended to."""

    tokens: int
    attended: float


def attended_by(tokens: int, *, behind: int) -> float:
    """Positions that `tokens` tokens behind a prefix of that length attend to, all together."""
    return tokens * (behind + (tokens + 1) / 2)


class StepTimeFit:
    """Seconds of a step ≈ a + b · tokens + c · attended positions, none of them negative.

    Least squares over all steps, each weighing less the longer it is ago. What is forgotten is
    replaced by one observation's worth of trust in the fit itself: inputs that never change leave
    what they say nothing of as it is, and nothing grows without bound. Errors are clipped at a
    multiple of their usual size, so a stall hardly moves the fit, while a lasting change widens
    that size and gets through.
    """

    def __init__(self) -> None:
        self._information = [[float(row == column) for column in AXES] for row in AXES]
        self._evidence = [0.0 for _ in AXES]
        self._weights = [0.0 for _ in AXES]
        self._scale = 0.0
        self._steps = 0
        self.known = False
        """Steps of different sizes have been seen, so the cost of a row means something."""

    def observe(self, load: StepLoad, seconds: float) -> None:
        """Learns from a step. Times that make no sense are left out."""
        if not (math.isfinite(seconds) and seconds > 0.0):
            return
        inputs = _inputs(load)
        answer = self._clipped(seconds, self.seconds(load))
        self._steps += 1
        memory = min(MEMORY, 1.0 - 1.0 / (self._steps + 4))
        for row in AXES:
            trusted = (1.0 - memory) * self._weights[row]
            self._evidence[row] = memory * self._evidence[row] + trusted + inputs[row] * answer
            for column in AXES:
                self._information[row][column] *= memory
                self._information[row][column] += inputs[row] * inputs[column]
            self._information[row][row] += 1.0 - memory
        self._weights = solve_without_negatives(self._information, self._evidence)
        self.known = self.known or self._token_information() > 1.0 + ENOUGH

    def seconds(self, load: StepLoad) -> float:
        """What a step should take."""
        base, token, attended = self._weights
        return base + token * load.tokens / TOKEN_UNIT + attended * load.attended / ATTENDED_UNIT

    def row_seconds(self, *, context: float) -> float:
        """What one more row adds to a step, at that many positions of context."""
        _, token, attended = self._weights
        return token / TOKEN_UNIT + attended * context / ATTENDED_UNIT

    def _clipped(self, seconds: float, expected: float) -> float:
        """The time, no further from the expected one than a multiple of the usual error."""
        if self._scale == 0.0:
            self._scale = seconds
        limit = CLIP * max(self._scale, LEAST_SCALE * expected)
        error = max(-limit, min(limit, seconds - expected))
        self._scale += SCALE_STEP * (abs(error) - self._scale)
        return expected + error

    def _token_information(self) -> float:
        """Of the cost of a token, once the other two are accounted for."""
        return 1.0 / solve(self._information, [0.0, 1.0, 0.0])[1]


def _inputs(load: StepLoad) -> tuple[float, float, float]:
    return 1.0, load.tokens / TOKEN_UNIT, load.attended / ATTENDED_UNIT


class RowPrice:
    """What one more row costs all generations together, in output tokens.

    Output tokens of a step, times the time that a row adds, over the time of the step; each
    averaged over recent steps.
    """

    def __init__(self, fit: StepTimeFit) -> None:
        self._fit = fit
        self._outputs, self._row_s, self._step_s = 0.0, 0.0, 0.0

    @property
    def value(self) -> float:
        """At least 0; 0 also until it is known."""
        if not self._fit.known or self._step_s <= 0.0:
            return 0.0
        return self._outputs * self._row_s / self._step_s

    def observe(self, load: StepLoad, *, outputs: int) -> None:
        """A step ran, was learnt from, and gave that many output tokens."""
        step = 1.0 if self._step_s == 0.0 else PRICE_STEP
        row_s = self._fit.row_seconds(context=load.attended / max(1, load.tokens))
        self._outputs += step * (outputs - self._outputs)
        self._row_s += step * (row_s - self._row_s)
        # The fit's own time: one step that stalled says nothing of the next.
        self._step_s += step * (self._fit.seconds(load) - self._step_s)
