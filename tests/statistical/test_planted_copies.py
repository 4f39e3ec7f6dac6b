"""The experiments through the services find every peek that a draft could make by copying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest
import torch

from coordinator.honesty import Honesty
from outrider.draft_law import CutLaw
from outrider.drafter import Drafter
from outrider.testing.exactness.experiments import Transitions, no_seeds
from outrider.testing.exactness.network import Conditions, network_decoder
from outrider.testing.exactness.random_policy import Chances, random_policies
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair
from outrider.testing.scripted import TableModel
from target_service.draft_check import ProposedToken
from target_service.rejection import acceptance_probability, judge, residual
from tests.statistical.peeking_copies import (
    Patch,
    Peek,
    copy_behind_one_id,
    copy_unless_it_was_drawn,
    copy_what_was_drawn,
    copy_while_a_drawn_token_waits,
    draw_by_rule,
)

PAIR = random_pair(seed=6, vocabulary_size=4, likeness=0.9)
PROMPT = (1, 2)
STEP_S = 0.03
FOUND = Stages(alarm_samples=3_500, verdict_samples=5_000)
SOUND = Stages(alarm_samples=30_000, verdict_samples=100_000)


def conditions(*, draft: TableModel | None = None, **chances: tuple[float, ...]) -> Conditions:
    """Nothing changes but what is given; all tokens are waited for unless that is."""
    none = {"ahead": (0,), "branches": (0,), "patience_s": (10.0,), "run": (0,), "copies": (0,)}
    made = Chances(**{**none, **chances})  # type: ignore[arg-type]
    return Conditions(policy=random_policies(made), draft=draft, drafter=Drafter.MIXED)


def waited_for() -> Conditions:
    return conditions(draft_length=(2, 4))


def in_step() -> Conditions:
    """Six tokens that are drawn come too late, six that are copied in time."""
    model = TableModel(PAIR.draft, step_time_s=STEP_S)
    return conditions(draft=model, draft_length=(6,), patience_s=(3.5 * STEP_S,))


@dataclass(frozen=True)
class Case:
    """A peek, and the same draft without it."""

    peek: Peek
    sound: Peek
    conditions: Callable[[], Conditions]


CASES = {
    "copied unless it was drawn": Case(copy_unless_it_was_drawn, draw_by_rule, waited_for),
    "copied where it was drawn": Case(copy_what_was_drawn, draw_by_rule, waited_for),
    "copied behind a token that waits": Case(
        copy_while_a_drawn_token_waits, copy_behind_one_id, in_step
    ),
}


@pytest.fixture(autouse=True)
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peek may be found out by how often tokens are accepted: here the law is to show it."""
    monkeypatch.setattr(Honesty, "trusted", property(lambda _: True))


def stages(case: Case, stages: Stages) -> tuple[bool, bool]:
    """Whether the first stage alarms, and whether the second finds another law."""
    with network_decoder(PAIR, case.conditions()) as decoder:
        experiment = Transitions(
            PAIR, decoder, prompt_token_ids=PROMPT, seeds=no_seeds, generation_length=100
        )
        alarmed = stages.alarmed(experiment)
        return alarmed, alarmed and stages.failed(experiment)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if case.peek is copy_unless_it_was_drawn else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
def test_a_peek_fails_both_stages(name: str, monkeypatch: Patch) -> None:
    case = CASES[name]
    case.peek(monkeypatch)
    assert stages(case, FOUND) == (True, True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_without_the_peek_nothing_is_found(name: str, monkeypatch: Patch) -> None:
    case = CASES[name]
    case.sound(monkeypatch)
    assert stages(case, SOUND)[1] is False


def test_a_look_at_the_drawn_token_moves_the_law_by_two_percent() -> None:
    """A copy is as likely to be a token as the output: it was output. Where it is compared with the
    drawn token, the one or the other is judged as what it is not."""
    moved = []
    for context in product(range(PAIR.vocabulary_size), repeat=2):
        p, q = (table[context].softmax(dim=0) for table in (PAIR.target, PAIR.draft))
        weights = (q * 65535).round().long().tolist()
        law = CutLaw(tuple(range(len(weights))), tuple(weights))
        out = torch.zeros_like(p)
        for copy in range(len(p)):
            accept = float(acceptance_probability(float(p[copy]), law, copy))
            left = residual(p, law, copy)
            judged = (1.0 - accept) * left / left.sum()
            judged[copy] += accept
            out += p[copy] * (q[copy] * judged + (1.0 - q[copy]) * p)
        moved.append(float((out - p).abs().sum()) / 2)
    assert sum(moved) / len(moved) >= 0.02


def test_a_copy_of_what_the_same_draws_decided_moves_the_law() -> None:
    """Why nobody copies from another generation of the same seed."""
    p = torch.tensor([[0.5, 0.3, 0.2]] * 2, dtype=torch.float64)
    seen = torch.zeros(3, dtype=torch.float64)
    for seed in range(4000):
        first = decided(p, seed=seed, draft=0)
        seen[decided(p, seed=seed, draft=first)] += 1
    assert float((seen / seen.sum() - p[0]).abs().sum()) / 2 >= 0.1


def decided(p: torch.Tensor, *, seed: int, draft: int) -> int:
    """The output at one place, where that token is proposed."""
    judgement = judge(
        p,
        [ProposedToken(draft, None)],
        seed=seed,
        choice_index=0,
        position=5,
        digest=7,
        want_bonus=False,
        stop_token_ids=(),
    )
    return judgement.output_token_ids[0]
