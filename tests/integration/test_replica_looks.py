"""How a coordinator watches its replicas, whatever becomes of channels and processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from coordinator import replica as replica_module
from coordinator import replica_set
from coordinator import worker as worker_module
from coordinator.endpoints import Endpoints
from coordinator.main import TARGET_SERVICE
from coordinator.replica_set import ReplicaSet
from coordinator.worker import Worker
from outrider.delay_proxy import DelayProxy
from outrider.rpc.channel import Channels, open_channel
from outrider.testing.cluster import WorkerPlan, running_cluster, start_target
from outrider.testing.pools import running_pools
from outrider.v1 import generation_pb2, model_pb2, model_pb2_grpc
from tests.integration.undisturbed import alone, assert_undisturbed, request, table

OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def plan() -> WorkerPlan:
    return WorkerPlan(table(step_time_s=0.004), weights_digest="the same")


async def becomes(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@dataclass
class Looks:
    """How often workers were looked at."""

    count: int = 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    looks, look = Looks(), Worker.look

    async def counted(self: Worker) -> None:
        looks.count += 1
        await look(self)

    monkeypatch.setattr(Worker, "look", counted)
    return looks


async def test_failures_one_after_the_other_cause_no_storm_of_looks(looks: Looks) -> None:
    async with running_cluster(plan(), None) as cluster:
        (replica,) = cluster.coordinator.pools.targets.all
        looks.count = 0
        clock = asyncio.get_running_loop().time
        until = clock() + 1.0
        while clock() < until:
            replica.failed()
            await asyncio.sleep(0.002)
    assert 2 <= looks.count <= 15


async def test_many_who_ask_how_the_workers_are_are_answered_by_few_looks(
    looks: Looks,
) -> None:
    async with running_cluster(plan(), None) as cluster:
        looks.count = 0
        asked = generation_pb2.GenerationServiceGetStatusRequest()
        answers = await asyncio.gather(*(cluster.stub.GetStatus(asked) for _ in range(200)))
    assert all(answer.targets[0].usable for answer in answers)
    assert 1 <= looks.count <= 100


@asynccontextmanager
async def health_alone(
    model: model_pb2_grpc.ModelServiceServicer | None = None,
) -> AsyncIterator[tuple[str, health.aio.HealthServicer]]:
    """A server that says how it is, and of its model what `model` does; its address."""
    server = aio.server()
    if model is not None:
        model_pb2_grpc.add_ModelServiceServicer_to_server(model, server)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await servicer.set(TARGET_SERVICE, SERVING)
    await server.start()
    try:
        yield f"127.0.0.1:{port}", servicer
    finally:
        await server.stop(None)


async def test_health_is_watched_over_the_newest_channel() -> None:
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    async with health_alone() as (address, servicer):
        old, new = open_channel(address), open_channel(address)
        worker = Worker(address, old, health_name=TARGET_SERVICE)

        async def watch() -> None:
            while True:
                await worker.watch(changed)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.1)
        worker.reach_by(new)
        async with asyncio.timeout(60):
            await old.close(grace=200.0)
        await asyncio.sleep(0.1)
        assert not watching.done()
        before = changes
        await servicer.set(TARGET_SERVICE, NOT_SERVING)
        await becomes(lambda: changes > before)
        watching.cancel()
        await new.close()


async def test_a_look_whose_channel_is_closed_meanwhile_finds_nobody() -> None:
    server = await start_target(plan())
    async with DelayProxy(server.rpc.address) as link:
        channel = open_channel(link.address)
        worker = Worker(link.address, channel, health_name=TARGET_SERVICE)
        assert (await worker.probe()).reachable
        worker.doubt()
        link.blackhole(True)
        looking = asyncio.create_task(worker.probe())
        await asyncio.sleep(0.05)
        await channel.close()
        assert not (await looking).reachable
        assert not (await worker.probe()).reachable
        link.blackhole(False)
    await server.stop(0)


async def test_a_stream_that_outlasts_its_channel_goes_on_over_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Certificates are replaced in the middle of a very long generation."""
    monkeypatch.setattr(replica_module, "LONGEST_STREAM_S", 0.05)
    expected = await alone()
    async with running_pools([plan()], [plan()]) as cluster:
        received: list[int] = []
        renewed = False
        async for response in cluster.stub.Generate(request()):
            received.extend(response.chunk.token_ids)
            if len(received) > 10 and not renewed:
                renewed = True
                for one in (*cluster.targets, *cluster.drafts):
                    replica = cluster.replica(one)
                    replica._channel_generation -= 1
                    replica.renew_channel()
    assert received == expected


class Overworked(model_pb2_grpc.ModelServiceServicer):
    """A worker whose model thread never comes to say how busy it is."""

    async def GetModel(  # noqa: N802
        self, request: model_pb2.GetModelRequest, context: object
    ) -> model_pb2.GetModelResponse:
        return model_pb2.GetModelResponse(replica_id="one", protocol_version=1)

    async def GetStatus(  # noqa: N802
        self, request: model_pb2.ModelServiceGetStatusRequest, context: object
    ) -> model_pb2.ModelServiceGetStatusResponse:
        await asyncio.sleep(600)
        return model_pb2.ModelServiceGetStatusResponse()

    async def GetTokenizer(  # noqa: N802
        self, request: model_pb2.GetTokenizerRequest, context: object
    ) -> AsyncIterator[model_pb2.GetTokenizerResponse]:
        yield model_pb2.GetTokenizerResponse()


@pytest.fixture
def never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at just because time has passed, and no answer is given up."""
    monkeypatch.setattr(worker_module, "PROBE_TIMEOUT_S", 600.0)
    for interval in ("LOOK_INTERVAL_S", "IMPATIENT_INTERVAL_S"):
        monkeypatch.setattr(replica_set, interval, 600.0)


@pytest.mark.usefixtures("never_again")
async def test_the_health_of_a_busy_worker_is_known_at_once() -> None:
    async with health_alone(Overworked()) as (address, servicer):
        replicas = ReplicaSet(Endpoints([address]), Channels(), health_name=TARGET_SERVICE)
        replicas.start()
        await becomes(lambda: bool(replicas.well))
        await asyncio.sleep(0.3)
        await servicer.set(TARGET_SERVICE, NOT_SERVING)
        await becomes(lambda: not replicas.well)
        await servicer.set(TARGET_SERVICE, SERVING)
        await becomes(lambda: bool(replicas.well))
        await replicas.close()


@pytest.mark.usefixtures("never_again")
async def test_a_replica_that_failed_is_looked_at_before_anybody_is_sent_there() -> None:
    """Its breaker may let somebody try when another process is there by then."""
    async with running_pools([plan()]) as cluster:
        (replica,) = cluster.coordinator.pools.targets.all
        assert replica.admits
        replica.failed()
        replica.breaker.succeeded()
        assert not replica.admits
        await becomes(lambda: replica.admits)


async def test_a_look_that_began_before_a_failure_says_nothing_of_it() -> None:
    async with health_alone(Overworked()) as (address, _), DelayProxy(address) as link:
        channel = open_channel(link.address)
        worker = Worker(link.address, channel, health_name=TARGET_SERVICE)
        await worker.look()
        link.round_trip_s = 0.1
        looking = asyncio.create_task(worker.look())
        await asyncio.sleep(0.01)
        worker.doubt()
        await looking
        assert worker.doubted
        await worker.look()
        assert not worker.doubted
        await channel.close()


async def test_restarts_in_a_row_lose_nobody() -> None:
    """More of them than times that a target may be lost while it has a generation."""
    expected = await alone()
    async with running_pools([plan()], target_wait_s=20.0) as cluster:
        (target,) = cluster.targets
        asked = asyncio.create_task(cluster.generate(request(speculation=OFF)))
        for _ in range(6):
            await asyncio.sleep(0.05)
            await target.kill()
            await target.come_back(plan())
        output = await asked
    assert_undisturbed(output, expected)
