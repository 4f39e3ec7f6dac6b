"""A test in two stages: an alarm on fixed seeds, then a verdict on fresh ones.

One stage at 0.01 would alarm falsely in a quarter to half of all runs with 30 to 60 tests. Fixed
seeds make the first stage repeatable; the second has five times its samples and decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from outrider.testing.exactness.experiments import Experiment

# Requests of the second stage are numbered from here on: none is shared with the first.
FRESH = 1 << 40


@dataclass(frozen=True, slots=True)
class Stages:
    """Sample counts and levels of the two stages."""

    alarm_samples: int = 200_000
    alarm_level: float = 0.01
    verdict_samples: int = 1_000_000
    verdict_level: float = 1e-3

    def alarmed(self, experiment: Experiment) -> bool:
        """Whether the first stage asks for the second."""
        return experiment.p_value(first=0, samples=self.alarm_samples) < self.alarm_level

    def failed(self, experiment: Experiment) -> bool:
        """Whether the second stage finds another law than the target's."""
        p_value = experiment.p_value(first=FRESH, samples=self.verdict_samples)
        return p_value < self.verdict_level

    def passes(self, experiment: Experiment) -> bool:
        """Whether the law is the target's, as far as both stages can tell."""
        return not (self.alarmed(experiment) and self.failed(experiment))
