"""A worker is not ready before its model is: not while it loads, and not before it is warm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.engine import loading
from outrider.rpc.channel import open_channel
from outrider.rpc.status import remote_error
from outrider.settings import DraftSettings, TargetSettings
from outrider.testing.scripted import ScriptedModel
from outrider.v1 import model_pb2, model_pb2_grpc
from outrider.worker import serve
from target_service.kind import target_kind

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class SlowModel:
    """Takes as long as it is told to load, and then for its first forward."""

    def __init__(self, folder: Path) -> None:
        self.loaded, self.warm = threading.Event(), threading.Event()
        self.model = ScriptedModel(self._logits, vocabulary_size=8)
        self._folder = folder

    def load(self, *_: Any, **__: Any) -> loading.LoadedModel:
        assert self.loaded.wait(30)
        return loading.LoadedModel(
            self.model,  # type: ignore[arg-type]
            name="slow",
            weights_digest="",
            eos_token_ids=(),
            bos_token_id=None,
            dtype="float64",
            device="cpu",
            folder=self._folder,
        )

    def _logits(self, token_ids: Any) -> torch.Tensor:
        assert self.warm.wait(30)
        return torch.zeros(8)


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize(
    ("kind", "settings", "service"),
    [
        (target_kind(max_draft_length=8), TargetSettings, "outrider.v1.TargetService"),
        (draft_kind(CandidateCut()), DraftSettings, "outrider.v1.DraftService"),
    ],
    ids=["target", "draft"],
)
async def test_it_serves_once_a_warm_up_round_has_passed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    unused_tcp_port: int,
    kind: Any,
    settings: Any,
    service: str,
) -> None:
    slow, stopping = SlowModel(tmp_path), asyncio.Event()
    monkeypatch.setattr(loading, "load_model", slow.load)
    monkeypatch.setattr(serve, "stop_signal", lambda: stopping)
    address = f"127.0.0.1:{unused_tcp_port}"
    serving = asyncio.create_task(serve.serve_worker(kind, settings(listen=address, drain_s=1)))
    async with open_channel(address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check

        async def statuses() -> set[Any]:
            names = ("", service, "outrider.v1.ModelService")
            asked = [health_pb2.HealthCheckRequest(service=name) for name in names]
            return {(await check(one, wait_for_ready=True)).status for one in asked}

        assert await statuses() == {NOT_SERVING}
        with pytest.raises(aio.AioRpcError) as caught:
            stub = model_pb2_grpc.ModelServiceStub(channel)
            await stub.GetModel(model_pb2.GetModelRequest())
        assert caught.value.code() == StatusCode.UNAVAILABLE
        assert "loading" in str(remote_error(caught.value))
        slow.loaded.set()
        await until(lambda: slow.model.forwards == 2)
        assert await statuses() == {NOT_SERVING}
        slow.warm.set()
        await until(lambda: slow.model.forwards == 3)
        for _ in range(500):
            if await statuses() == {SERVING}:
                break
            await asyncio.sleep(0.01)
        assert await statuses() == {SERVING}
    stopping.set()
    assert await asyncio.wait_for(serving, 10) == 0
