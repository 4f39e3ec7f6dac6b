"""Warming up runs every kind of forward and leaves nothing."""

from __future__ import annotations

import pytest

from outrider.engine.load_error import ModelLoadError
from outrider.engine.warm_up import warm_up
from outrider.testing.scripted import ScriptedModel, TableModel, random_table


def test_prefill_one_row_and_a_round_are_run() -> None:
    model = TableModel(random_table(seed=1))
    warm_up(model, 5)
    assert model.forwards == 3
    assert model.tokens == 32 + 1 + 6


@pytest.mark.parametrize("context_length", [1, 2, 3, 8, 33])
def test_a_short_context_is_no_obstacle(context_length: int) -> None:
    model = TableModel(random_table(seed=1), context_length=context_length)
    warm_up(model, 5)
    assert model.forwards >= 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_model_whose_logits_are_of_no_use_is_not_served(bad: float) -> None:
    model = ScriptedModel(lambda token_ids: [0.0, bad, 0.0], vocabulary_size=3)
    with pytest.raises(ModelLoadError, match="NaN or infinite"):
        warm_up(model, 5)
