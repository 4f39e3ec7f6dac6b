"""The experiments through the services find every peek of law 4, and nothing without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from coordinator.honesty import Honesty
from outrider.testing.exactness.decoding import Decoder
from outrider.testing.exactness.experiments import Transitions, no_seeds
from outrider.testing.exactness.network import Conditions, network_decoder
from outrider.testing.exactness.random_policy import Chances, random_policies
from outrider.testing.exactness.stages import Stages
from outrider.testing.scripted import TableModel
from tests.statistical.peeking_services import (
    CUT,
    PAIR,
    PROMPT,
    SLOW_S,
    Patch,
    Peek,
    compare_with_a_bonus,
    dawdle,
    draw_twice,
    drop_unlikely_tokens,
    flush_when_confident,
    let_the_last_draw_win,
    send_guesses,
    wait_for_the_follower,
)

ALL_WAITED_FOR = (10.0,)
QUICK = Stages(alarm_samples=1_500, verdict_samples=2_000)
THOROUGH = Stages(alarm_samples=10_000, verdict_samples=20_000)
SOUND = Stages(alarm_samples=30_000, verdict_samples=100_000)


def conditions(*, draft: TableModel | None = None, **chances: tuple[float, ...]) -> Conditions:
    none = {"ahead": (0,), "branches": (0,), "patience_s": ALL_WAITED_FOR, "run": (0,)}
    made = Chances(**{**none, **chances})  # type: ignore[arg-type]
    return Conditions(policy=random_policies(made), cut=CUT, draft=draft)


@pytest.fixture(autouse=True)
def believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some peeks are found out by how often tokens are accepted: here the law is to show them."""
    monkeypatch.setattr(Honesty, "trusted", property(lambda _: True))


def no_peek(patch: Patch) -> None:
    """The services as they are."""


@dataclass(frozen=True)
class Case:
    """Conditions under which a peek shows, and services that do not peek under the same."""

    peek: Peek
    conditions: Callable[[], Conditions]
    sound: Peek = no_peek
    stages: Stages = QUICK


def sometimes_late() -> Conditions:
    """Tokens for places to come lie there already, with guesses beside them."""
    return conditions(
        draft_length=(3,), ahead=(3,), branches=(4,), branch_length=(0,), patience_s=(0.0, 10.0)
    )


def in_step(step_s: float) -> Conditions:
    """The draft takes six steps for a proposal, and a round waits for three and a half."""
    return conditions(
        draft=TableModel(PAIR.draft, step_time_s=step_s),
        draft_length=(6,),
        patience_s=(3.5 * step_s,),
    )


def dawdling() -> Conditions:
    """A round waits for less than the second token may take."""
    few = conditions(draft_length=(1,), ahead=(1,), patience_s=(SLOW_S / 2,))
    return replace(few, target_step_s=SLOW_S / 4)


CASES = {
    "unlikely tokens dropped": Case(drop_unlikely_tokens, lambda: conditions(draft_length=(2, 4))),
    "a bonus beside a waiting token": Case(
        compare_with_a_bonus, lambda: conditions(draft_length=(1,), ahead=(2,))
    ),
    "a guess sent": Case(send_guesses, sometimes_late),
    "the last draw": Case(
        let_the_last_draw_win, lambda: conditions(draft_length=(2, 4)), draw_twice, THOROUGH
    ),
    "the follower waited for": Case(wait_for_the_follower, dawdling, dawdle, THOROUGH),
    "flushed when confident": Case(flush_when_confident, lambda: in_step(0.05), stages=THOROUGH),
}


def experiment(decoder: Decoder) -> Transitions:
    return Transitions(
        PAIR, decoder, prompt_token_ids=PROMPT, seeds=no_seeds, generation_length=100
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if case.stages is THOROUGH else [])
        for name, case in CASES.items()
    ],
)
def test_a_peek_fails_both_stages(name: str, monkeypatch: Patch) -> None:
    case = CASES[name]
    case.peek(monkeypatch)
    with network_decoder(PAIR, case.conditions()) as decoder:
        assert case.stages.alarmed(experiment(decoder))
        assert case.stages.failed(experiment(decoder))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_without_the_peek_nothing_is_found(name: str, monkeypatch: Patch) -> None:
    case = CASES[name]
    case.sound(monkeypatch)
    with network_decoder(PAIR, case.conditions()) as decoder:
        assert SOUND.passes(experiment(decoder))
