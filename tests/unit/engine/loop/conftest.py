"""A model loop over a gated model, ended after the test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from outrider.engine.loop import LoopOptions, ModelLoop
from tests.unit.engine.loop.counting import GatedModel, Loop, counting_on


@pytest.fixture
def model() -> GatedModel:
    return GatedModel()


@pytest.fixture
async def loop(model: GatedModel) -> AsyncIterator[Loop]:
    loop: Loop = ModelLoop(model, counting_on(model), options=LoopOptions(prefill_slice=16))
    loop.start()
    yield loop
    model.let_run()
    await loop.close()
