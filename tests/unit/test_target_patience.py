"""How long a generation goes on after targets that did not do it."""

from __future__ import annotations

import pytest

from coordinator.target_patience import MOST_LOSSES, TargetPatience
from outrider.errors import Exhausted, InternalFailure, OutriderError, PoolUnavailable
from outrider.testing.standing import standing_replica

LOST, FULL, FAILED = PoolUnavailable("gone"), Exhausted("no room"), InternalFailure("a bug")


@pytest.mark.parametrize("error", [LOST, FAILED])
def test_a_request_that_may_be_the_cause_takes_few_targets_with_it(error: OutriderError) -> None:
    patience = TargetPatience(10.0)
    for _ in range(2):
        assert all(patience.lasts(error, alone=False) for _ in range(MOST_LOSSES - 1))
        patience.served()
    assert all(patience.lasts(error, alone=False) for _ in range(MOST_LOSSES - 1))
    assert not patience.lasts(error, alone=False)


def test_the_only_target_is_waited_for_when_it_is_gone_and_not_when_it_fails() -> None:
    assert TargetPatience(10.0).lasts(LOST, alone=True)
    assert not TargetPatience(10.0).lasts(FAILED, alone=True)


async def test_a_new_generation_asks_a_few_full_targets_once() -> None:
    patience = TargetPatience(10.0)
    for n in range(MOST_LOSSES):
        patience.tried.add(standing_replica(f"127.0.0.1:{n + 1}", replica_id=str(n)))
        assert patience.lasts(FULL, alone=False) == (n < MOST_LOSSES - 1)
    assert not TargetPatience(10.0).lasts(FULL, alone=True)


@pytest.mark.parametrize(("wait_s", "lasts"), [(10.0, True), (0.0, False)])
def test_one_that_has_begun_waits_for_room(wait_s: float, lasts: bool) -> None:
    patience = TargetPatience(wait_s)
    patience.served()
    assert all(patience.lasts(FULL, alone=True) == lasts for _ in range(2 * MOST_LOSSES))
