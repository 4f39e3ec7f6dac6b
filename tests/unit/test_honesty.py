"""Whether a draft draws from what it reports, told by how often its tokens are accepted."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.honesty import LARGEST_Z, Honesty


def judged(honesty: Honesty, *, count: int, bias: float, seed: int = 1) -> int:
    """Tokens until the trust ends, at most `count`. `bias`: by how much more are accepted."""
    random = Random(seed)
    for n in range(count):
        chance = random.uniform(0.05, 0.9)
        honesty.judged(chance, accepted=random.random() < chance + bias)
        if not honesty.trusted:
            return n + 1
    return count


@pytest.mark.parametrize("seed", range(5))
def test_an_honest_draft_stays_trusted(seed: int) -> None:
    honesty = Honesty()
    assert judged(honesty, count=60_000, bias=0.0, seed=seed) == 60_000
    assert abs(honesty.z) < LARGEST_Z


@pytest.mark.parametrize("bias", [-0.1, 0.1])
def test_a_biased_one_is_found_within_some_thousand_tokens(bias: float) -> None:
    assert judged(Honesty(), count=10_000, bias=bias) < 3_000


def test_one_that_turns_is_found_as_soon_as_a_new_one() -> None:
    honesty = Honesty()
    judged(honesty, count=200_000, bias=0.0)
    assert honesty.trusted
    assert judged(honesty, count=20_000, bias=0.1, seed=2) < 20_000


def test_chances_near_certainty_do_not_condemn_for_a_few_rejections() -> None:
    honesty = Honesty()
    for n in range(2_000):
        honesty.judged(0.999, accepted=n % 500 != 0)
    assert honesty.trusted
    for _ in range(13):
        honesty.judged(0.999, accepted=False)
    assert not honesty.trusted


def test_what_is_no_chance_is_not_counted() -> None:
    honesty = Honesty()
    for chance in (float("nan"), -1.0, 1.5):
        honesty.judged(chance, accepted=True)
    assert honesty.z == 0.0
