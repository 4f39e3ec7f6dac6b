"""What a draft can do, by what it says of itself."""

from __future__ import annotations

import pytest

from coordinator.copied_tokens import copying
from coordinator.draft_plan import Copying
from coordinator.draft_tree import DraftTree
from outrider.drafter import Drafter
from outrider.prefix import TokenPrefix
from outrider.v1 import model_pb2


def offered(*features: str, drafter: str = "") -> Copying | None:
    model = model_pb2.GetModelResponse(features=features, drafter=drafter)
    return copying(model, DraftTree(TokenPrefix((1,))), longest=16)


@pytest.mark.parametrize("drafter", [drafter for drafter in Drafter if drafter.copies])
def test_a_draft_that_copies_says_whether_it_draws_too(drafter: Drafter) -> None:
    assert offered("copies", drafter=drafter) == Copying(drafter.draws)


@pytest.mark.parametrize("drafter", ["", "model", "of a later version"])
def test_without_the_feature_it_does_not_copy(drafter: str) -> None:
    assert offered("decode_tokens", drafter=drafter) is None


def test_a_drafter_that_is_not_known_is_taken_to_draw() -> None:
    assert offered("copies", drafter="of a later version") == Copying(draws=True)


def test_without_a_draft_there_is_nothing_to_copy() -> None:
    assert copying(None, DraftTree(TokenPrefix((1,))), longest=16) is None
