"""Three services whose draft may be moved away, so that its hop takes a stated round trip."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import grpc

from benchmarks.services import GRACE_S, Placement, Programs, Silent, service_plan, wait_for_draft
from outrider.cli.deployment import Deployment
from outrider.client import Client
from outrider.delay_proxy import DelayProxy, running_delay_proxy
from outrider.v1 import model_pb2, model_pb2_grpc

PINGS = 9


@dataclass(frozen=True, slots=True)
class DistantDraft:
    """The running services. `coordinator`: its address."""

    coordinator: str
    client: Client
    _proxy: DelayProxy

    def move(self, round_trip_s: float) -> float:
        """Puts the draft so far away; the round trip that is measured, in seconds.

        Measured is the median time of a small call: with no delay it is what a hop takes anyway.
        """
        self._proxy.round_trip_s = round_trip_s
        found = []
        with grpc.insecure_channel(self._proxy.address) as channel:
            stub = model_pb2_grpc.ModelServiceStub(channel)
            for _ in range(PINGS):
                since = time.perf_counter()
                stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())
                found.append(time.perf_counter() - since)
        return median(found)


@contextmanager
def running_with_distant_draft(programs: Programs, placement: Placement) -> Iterator[DistantDraft]:
    """Serves until the block ends; until then this process, the proxy in it, is on the target's
    cores."""
    own_cores = os.sched_getaffinity(0)
    with (
        tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder,
        Deployment(Path(folder), Silent(), grace_s=GRACE_S) as deployment,
    ):
        workers = deployment.start(
            [
                service_plan("target", programs.target, placement.target_cores),
                service_plan("draft", programs.draft, placement.other_cores),
            ]
        )
        with running_delay_proxy(workers["draft"], round_trip_s=0.0) as proxy:
            words = [
                *programs.coordinator,
                "--listen=127.0.0.1:0",
                f"--target-address={workers['target']}",
                f"--draft-address={proxy.address}",
            ]
            plan = service_plan("coordinator", words, placement.other_cores)
            address = deployment.start([plan])["coordinator"]
            os.sched_setaffinity(0, placement.target_cores)
            try:
                with Client(address) as client:
                    wait_for_draft(client)
                    yield DistantDraft(address, client, proxy)
            finally:
                os.sched_setaffinity(0, own_cores)
