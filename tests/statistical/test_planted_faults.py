"""The experiments find what they are for: every planted fault fails both stages.

More samples only make a fault plainer, so the quick runs use fewer than the real stages do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from draft_service.proposal import CandidateCut
from outrider.engine.sampling_options import SamplingOptions
from outrider.randomness import Purpose, derive_seed
from outrider.testing.exactness.experiments import FirstTwoTokens, Transitions
from outrider.testing.exactness.faulty import (
    EqualityVerifying,
    FirstUnchecked,
    FreshAfterMismatch,
    OnlyBonusShaped,
    OtherLawReported,
    Peeking,
)
from outrider.testing.exactness.in_process import InProcessDecoder, Schedule
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair
from target_service import rejection

PAIR = random_pair(seed=1)
CUT = CandidateCut(candidates=4)
UNCUT = CandidateCut(mass=1.0)
PLAIN = SamplingOptions()
COOL = SamplingOptions(temperature=0.5)
TOP_3 = SamplingOptions(top_k=3)

SOUND = InProcessDecoder(PAIR, PLAIN, CUT)


def nothing(patch: pytest.MonkeyPatch) -> None:
    """The fault is in the decoder."""


def residual_from_p(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rejection, "residual", lambda target_probs, law, token_id: target_probs)


def shared(purpose: Purpose, other: Purpose) -> Callable[[pytest.MonkeyPatch], None]:
    """The target's draws for one purpose come from the stream of another."""

    def derive(asked: Purpose, *, seed: int, choice_index: int) -> int:
        used = other if asked is purpose else asked
        return derive_seed(used, seed=seed, choice_index=choice_index)

    return lambda patch: patch.setattr(rejection, "derive_seed", derive)


@dataclass(frozen=True)
class Fault:
    decoder: InProcessDecoder
    plant: Callable[[pytest.MonkeyPatch], None] = nothing


FAULTS = {
    "residual drawn from p": Fault(SOUND, residual_from_p),
    "uncut q reported": Fault(OtherLawReported(PAIR, PLAIN, CUT, reported_cut=UNCUT)),
    "temperature in the report only": Fault(
        OtherLawReported(
            PAIR,
            PLAIN,
            UNCUT,
            reported_cut=UNCUT,
            reported_options=SamplingOptions(temperature=0.6),
        )
    ),
    "temperature on the bonus row only": Fault(OnlyBonusShaped(PAIR, COOL, CUT)),
    "top-k on the bonus row only": Fault(OnlyBonusShaped(PAIR, TOP_3, CUT)),
    "accept and recover share": Fault(SOUND, shared(Purpose.RECOVER, Purpose.ACCEPT)),
    "draft and recover share": Fault(SOUND, shared(Purpose.RECOVER, Purpose.DRAFT)),
    "draft and accept share": Fault(SOUND, shared(Purpose.ACCEPT, Purpose.DRAFT)),
    "first unchecked after full acceptance": Fault(
        FirstUnchecked(PAIR, PLAIN, CUT, Schedule(draft_lengths=(1,), bonuses=(False,)))
    ),
    "cut before an unlikely token": Fault(Peeking(PAIR, PLAIN, CUT)),
    "fresh draw after a mismatch": Fault(FreshAfterMismatch(PAIR, PLAIN, CUT)),
}
QUICK_PAIRS = Stages(alarm_samples=3_000, verdict_samples=6_000)
QUICK_TRANSITIONS = Stages(alarm_samples=10_000, verdict_samples=20_000)
"""A pair of tokens tells more than one token of a long generation."""


@pytest.mark.parametrize(
    ("law", "stages"),
    [
        pytest.param(FirstTwoTokens, QUICK_PAIRS, id="quick-FirstTwoTokens"),
        pytest.param(Transitions, QUICK_TRANSITIONS, id="quick-Transitions"),
        pytest.param(FirstTwoTokens, Stages(), id="full-FirstTwoTokens", marks=pytest.mark.slow),
        pytest.param(Transitions, Stages(), id="full-Transitions", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_fails_both_stages(law, stages, name, monkeypatch):
    fault = FAULTS[name]
    fault.plant(monkeypatch)
    experiment = law(PAIR, fault.decoder, fault.decoder.options)
    assert stages.alarmed(experiment)
    assert stages.failed(experiment)


@pytest.mark.parametrize("law", [pytest.param(FirstTwoTokens, marks=pytest.mark.slow), Transitions])
def test_equality_verification_is_exact(law):
    decoder = EqualityVerifying(PAIR, PLAIN, CUT)
    assert Stages().passes(law(PAIR, decoder))
