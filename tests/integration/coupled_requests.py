"""Requests with a seed, and all ways to speculate: none may change what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from outrider.testing.cluster import Cluster, Output, WorkerPlan, start_draft, token_request
from outrider.v1 import common_pb2, generation_pb2

ON = generation_pb2.SPECULATION_MODE_ON
AUTO = generation_pb2.SPECULATION_MODE_AUTO
OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)


def way(mode: generation_pb2.SpeculationMode.ValueType = ON, **fields: Any) -> Any:
    """One way to speculate."""
    return generation_pb2.SpeculationParams(mode=mode, **fields)


WAYS: Mapping[str, generation_pb2.SpeculationParams] = {
    "off": OFF,
    **{f"k {k}": way(draft_length=k) for k in range(1, 9)},
    "k 3, synchronous": way(draft_length=3, draft_ahead=False),
    "k 3, branches": way(draft_length=3, branches=4),
    "k 1, branches": way(draft_length=1, branches=4),
    "k chosen": way(),
    "k chosen, synchronous": way(draft_ahead=False),
    "auto": way(AUTO),
    "auto, branches": way(AUTO, branches=4),
}


def seeded(
    prompt: Sequence[int],
    speculation: generation_pb2.SpeculationParams,
    *,
    length: int,
    resumed: Sequence[int] = (),
    **sampling: Any,
) -> generation_pb2.GenerateRequest:
    """At temperature 1 unless `sampling` says otherwise."""
    return token_request(
        prompt,
        max_new_tokens=length,
        sampling=common_pb2.SamplingParams(**{"seed": 11, "temperature": 1.0, **sampling}),
        speculation=speculation,
        output_token_ids=resumed,
    )


async def generate_all(
    cluster: Cluster, requests: Iterable[generation_pb2.GenerateRequest]
) -> list[Output]:
    """All at once."""
    return list(await asyncio.gather(*(cluster.generate(request) for request in requests)))


async def replace_draft(cluster: Cluster, plan: WorkerPlan) -> None:
    """Kills the draft; another process takes its address."""
    assert cluster.draft is not None
    address = cluster.draft.rpc.address
    await cluster.draft.stop(0)
    cluster.draft = await start_draft(replace(plan, address=address))
    await cluster.coordinator.pools.look()
