"""What was measured, and from where."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.v1 import generation_pb2

CPU_FACTS = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker of a pool. Sizes are in bytes."""

    pool: str
    address: str
    model: str
    weights_digest: str
    dtype: str
    device: str
    weights_bytes: int
    kv_pool_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A coordinator with its workers, and the machine that asked it."""

    coordinator: str
    build_version: str
    workers: Sequence[Worker]
    client: str
    """The machine that sent the requests, in words."""

    def model_of(self, pool: str) -> str:
        """The model of a pool's first worker; empty without one."""
        return next((one.model for one in self.workers if one.pool == pool), "")


def subject(address: str, state: generation_pb2.GenerationServiceGetStatusResponse) -> Subject:
    """What a coordinator says of itself."""
    return Subject(
        coordinator=address,
        build_version=state.build_version,
        workers=[
            _worker(pool, worker)
            for pool, workers in (("target", state.targets), ("draft", state.drafts))
            for worker in workers
            if worker.usable
        ],
        client=f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
    )


def _worker(pool: str, worker: generation_pb2.WorkerStatus) -> Worker:
    return Worker(
        pool=pool,
        address=worker.address,
        model=worker.model.name,
        weights_digest=worker.model.weights_digest,
        dtype=worker.model.dtype,
        device=worker.model.device,
        weights_bytes=worker.status.weights_bytes,
        kv_pool_bytes=worker.status.kv_pool_bytes,
    )


def _processor() -> str:
    names = (
        line.partition(":")[2].strip()
        for line in (CPU_FACTS.read_text().splitlines() if CPU_FACTS.exists() else ())
        if line.startswith("model name")
    )
    return next(names, platform.processor() or platform.machine())
