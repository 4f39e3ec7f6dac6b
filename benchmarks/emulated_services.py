"""The emulated pair as real processes, with a stated round trip before the draft."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import grpc

from benchmarks.services import GRACE_S, Silent, wait_for_draft
from outrider.cli.client import Client
from outrider.cli.deployment import Deployment, ServicePlan
from outrider.delay_proxy import DelayProxy, running_delay_proxy
from outrider.v1 import model_pb2, model_pb2_grpc

PINGS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTimes:
    """How long forwards take: `step_s` and `row_s` for each token in it."""

    step_s: float
    row_s: float

    @property
    def words(self) -> str:
        """For the note of a row."""
        return f"{self.step_s * 1000:g} ms and {self.row_s * 1000:g} ms per row"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Stated times of both models."""

    target: ForwardTimes
    draft: ForwardTimes

    @property
    def words(self) -> str:
        """For the note of a row."""
        return f"sleep-emulated: a target forward {self.target.words}, a draft's {self.draft.words}"


LIKE_A_GPU_PAIR = PairTimes(
    target=ForwardTimes(step_s=0.040, row_s=0.0004),
    draft=ForwardTimes(step_s=0.004, row_s=0.00005),
)
"""What a 70B target in 8 bits on two 80 GB cards needs to read its weights once (35 GB a card at
some 1.5 TB/s is 24 ms, with kernels and communication about 40), and a 1B draft on a small card.
A hundred rows double the target's step: there computing begins to take as long as reading."""


@dataclass(frozen=True, slots=True)
class EmulatedPair:
    """The running services. `coordinator`: its address."""

    coordinator: str
    client: Client
    _proxy: DelayProxy
    _draft: str

    def put_draft_at(self, round_trip_s: float) -> float:
        """Sets the round trip of the draft's hop; the one that is measured, in seconds.

        Measured is the median time of a small call through the proxy; one without is in it.
        """
        self._proxy.round_trip_s = round_trip_s
        return _ping(self._proxy.address)


@contextmanager
def running_emulated(times: PairTimes = LIKE_A_GPU_PAIR) -> Iterator[EmulatedPair]:
    """Serves until the block ends. Nothing is pinned: models sleep instead of working."""
    with (
        tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder,
        Deployment(Path(folder), Silent(), grace_s=GRACE_S) as deployment,
    ):
        workers = deployment.start([_worker("target", times.target), _worker("draft", times.draft)])
        with running_delay_proxy(workers["draft"], round_trip_s=0.0) as proxy:
            words = (
                *("-m", "outrider", "serve", "--end-with-input", "coordinator"),
                "--listen=127.0.0.1:0",
                f"--target-address={workers['target']}",
                f"--draft-address={proxy.address}",
            )
            plan = ServicePlan(name="coordinator", command=[sys.executable, *words])
            address = deployment.start([plan])["coordinator"]
            with Client(address) as client:
                wait_for_draft(client)
                yield EmulatedPair(address, client, proxy, workers["draft"])


def _worker(role: str, times: ForwardTimes) -> ServicePlan:
    words: Sequence[str] = (
        *("-m", "benchmarks.emulated_worker", role),
        *(str(times.step_s), str(times.row_s)),
    )
    return ServicePlan(name=role, command=[sys.executable, *words])


def _ping(address: str) -> float:
    found = []
    with grpc.insecure_channel(address) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)
        for _ in range(PINGS):
            since = time.perf_counter()
            stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())
            found.append(time.perf_counter() - since)
    return median(found)
