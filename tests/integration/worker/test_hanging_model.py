"""A model that does not come back from a forward: its worker says so, and generations go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from outrider.testing.cluster import WorkerPlan
from outrider.testing.pools import running_pools
from outrider.testing.scripted import TableModel, random_table
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.undisturbed import alone, assert_undisturbed, request


class HangingModel(TableModel):
    """Stops in the middle of a forward until it is let go on."""

    def __init__(self) -> None:
        super().__init__(random_table(seed=1), step_time_s=0.004)
        self.goes_on = threading.Event()
        self.goes_on.set()

    def forward(self, chunks: Sequence[Any]) -> list[torch.Tensor]:
        self.goes_on.wait(30.0)
        return super().forward(chunks)


@pytest.mark.parametrize(
    "mode", [generation_pb2.SPECULATION_MODE_ON, generation_pb2.SPECULATION_MODE_OFF]
)
async def test_generations_go_on_elsewhere_and_the_worker_comes_back(mode: int) -> None:
    models = [HangingModel(), HangingModel()]
    plans = [WorkerPlan(model, weights_digest="same") for model in models]
    asked = request(sampling=common_pb2.SamplingParams(temperature=0))
    asked.speculation.mode = mode  # type: ignore[assignment]
    async with running_pools(plans, [WorkerPlan(TableModel(random_table(seed=1)))]) as cluster:
        for member in cluster.targets:
            member.server._hang_s = 0.3
        received: list[int] = []
        stuck: HangingModel | None = None
        async for response in cluster.stub.Generate(asked):
            received.extend(response.chunk.token_ids)
            if len(received) > 10 and stuck is None:
                place = cluster.targets.index(cluster.serving(cluster.targets))
                stuck = models[place]
                stuck.goes_on.clear()
        assert received == await alone()
        replica = cluster.replica(cluster.targets[place])
        assert not replica.well
        assert_undisturbed(await cluster.generate(asked), received)
        assert stuck is not None
        stuck.goes_on.set()
        async with asyncio.timeout(60):
            while not replica.usable:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
