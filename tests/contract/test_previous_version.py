"""Version 1 of the contract is still spoken: services are upgraded one after the other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from grpc import StatusCode, aio

from coordinator.main import CoordinatorServer
from outrider.rpc.channel import open_channel
from outrider.settings import CoordinatorSettings
from outrider.testing.cluster import (
    LOOPBACK,
    Cluster,
    WorkerPlan,
    start_draft,
    start_target,
    token_request,
)
from outrider.testing.tiny_models import DRAFT_SEED, TARGET_SEED, tiny_model
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc, model_pb2, model_pb2_grpc
from outrider.worker.model_description import ModelDescription
from tests.contract.previous_version import RECORDED, PreviousVersion
from tests.contract.test_protos import BUF, PROTOS

NEW_TOKENS = 24
LINKS = {"none": (), "target": ("target",), "draft": ("draft",), "both": ("target", "draft")}
SAMPLINGS = {
    "greedy": common_pb2.SamplingParams(temperature=0),
    "coupled": common_pb2.SamplingParams(seed=3, temperature=0.8, top_p=0.95),
    "rejection": common_pb2.SamplingParams(
        seed=4, temperature=0.9, verification=common_pb2.VERIFICATION_REJECTION
    ),
}


@dataclass
class Mixed:
    """A cluster, and the old peers between its services, by the link that they are on."""

    cluster: Cluster
    old: dict[str, PreviousVersion]


@asynccontextmanager
async def mixed_cluster(*links: str) -> AsyncIterator[Mixed]:
    """Tiny models in float64, the draft close to the target: most draft tokens are accepted."""
    async with AsyncExitStack() as stack:
        target = await start_target(WorkerPlan(tiny_model(seed=TARGET_SEED)))
        draft = await start_draft(WorkerPlan(tiny_model(seed=TARGET_SEED)))
        addresses = {"target": target.rpc.address, "draft": draft.rpc.address}
        old = {}
        for link in links:
            old[link] = await stack.enter_async_context(PreviousVersion(addresses[link]))
            addresses[link] = old[link].address
        coordinator = CoordinatorServer(
            CoordinatorSettings(
                listen=LOOPBACK,
                target_address=addresses["target"],
                draft_address=addresses["draft"],
                draft_timeout_ms=10_000,
                speculation="on",
            )
        )
        await coordinator.start()
        cluster = await stack.enter_async_context(Cluster(coordinator, target, draft))
        await coordinator.become_ready()
        await coordinator.pools.look()
        yield Mixed(cluster, old)


def requests() -> list[generation_pb2.GenerateRequest]:
    return [
        token_request(
            [1 + number, 2, 3],
            max_new_tokens=NEW_TOKENS,
            sampling=sampling,
            # Synchronous rounds of one length: REJECTION's output depends on what is proposed.
            speculation=generation_pb2.SpeculationParams(draft_length=3, draft_ahead=False),
        )
        for sampling in SAMPLINGS.values()
        for number in range(2)
    ]


async def outputs(links: tuple[str, ...]) -> tuple[list[list[int]], int, Mixed]:
    async with mixed_cluster(*links) as mixed:
        found = [await mixed.cluster.generate(request) for request in requests()]
        for output in found:
            assert output.gapless
        accepted = sum(output.summary.speculation.accepted_tokens for output in found)
        return [output.token_ids for output in found], accepted, mixed


@pytest.mark.parametrize("kind", ["target", "draft", "both"])
async def test_old_and_new_give_what_new_ones_give(kind: str) -> None:
    expected, accepted, _ = await outputs(())
    found, accepted_with_old, mixed = await outputs(LINKS[kind])
    assert found == expected
    assert accepted_with_old == accepted > 50
    for peer in mixed.old.values():
        assert peer.refused == []
        assert peer.answers > 20


@pytest.mark.parametrize("kind", ["target", "draft"])
async def test_an_old_coordinator_takes_a_new_worker(kind: str) -> None:
    """It compares one number: that of the version that it speaks itself."""
    start = start_target if kind == "target" else start_draft
    server = await start(WorkerPlan(tiny_model(seed=DRAFT_SEED)))
    async with PreviousVersion(server.rpc.address) as peer, open_channel(peer.address) as channel:
        stub = model_pb2_grpc.ModelServiceStub(channel)
        model = await stub.GetModel(model_pb2.GetModelRequest())
        assert model.protocol_version == 1
        assert model.newest_protocol_version == 0
        assert (await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())).uptime_s > 0
    await server.stop(0)


async def test_an_old_client_is_served() -> None:
    async with (
        mixed_cluster() as mixed,
        PreviousVersion(mixed.cluster.coordinator.rpc.address) as peer,
        open_channel(peer.address) as channel,
    ):
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        (request, *_) = requests()
        expected = (await mixed.cluster.generate(request)).token_ids
        found: list[int] = []
        async for response in stub.Generate(request):
            assert not response.chunk.HasField("origin")
            found += response.chunk.token_ids
        assert found == expected
        request.output_token_ids.extend(expected[:5])
        resumed = [token async for one in stub.Generate(request) for token in one.chunk.token_ids]
        assert resumed == expected[5:]


class OtherVersions:
    """GetModel as a worker of other versions would answer it."""

    def __init__(self, *, oldest: int, newest: int) -> None:
        self._fields = {"protocol_version": oldest, "newest_protocol_version": newest}

    def __call__(self, model: model_pb2.GetModelResponse) -> model_pb2.GetModelResponse:
        for field, value in self._fields.items():
            setattr(model, field, value)
        return model


@pytest.mark.parametrize(
    ("oldest", "newest", "spoken"), [(3, 3, "3"), (3, 5, "3 to 5"), (0, 0, "0")]
)
async def test_a_target_of_versions_unknown_here_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, oldest: int, newest: int, spoken: str
) -> None:
    _speak(monkeypatch, OtherVersions(oldest=oldest, newest=newest), model_pb2.WORKER_ROLE_TARGET)
    target = await start_target(WorkerPlan(tiny_model()))
    coordinator = CoordinatorServer(
        CoordinatorSettings(listen=LOOPBACK, target_address=target.rpc.address)
    )
    await coordinator.start()
    async with Cluster(coordinator, target, None) as cluster:
        await coordinator.pools.look()
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
        (found,) = status.targets
        assert found.reachable
        assert not found.usable
        assert found.reason == f"the target speaks protocol version {spoken}, not 1 to 2"
        with pytest.raises(aio.AioRpcError) as caught:
            await cluster.generate(requests()[0])
        assert caught.value.code() == StatusCode.UNAVAILABLE


async def test_a_draft_of_versions_unknown_here_is_refused_by_name_and_missed_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, _, _ = await outputs(())
    _speak(monkeypatch, OtherVersions(oldest=3, newest=4), model_pb2.WORKER_ROLE_DRAFT)
    async with mixed_cluster() as mixed:
        stub = mixed.cluster.stub
        status = await stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
        (found,) = status.drafts
        assert not found.usable
        assert found.reason == "the draft speaks protocol version 3 to 4, not 1 to 2"
        greedy = (await mixed.cluster.generate(requests()[0])).token_ids
        assert greedy == expected[0]


def _speak(
    monkeypatch: pytest.MonkeyPatch, versions: OtherVersions, role: model_pb2.WorkerRole.ValueType
) -> None:
    to_message = ModelDescription.to_message

    def answer(self: ModelDescription) -> model_pb2.GetModelResponse:
        message = to_message(self)
        return versions(message) if self.role == role else message

    monkeypatch.setattr(ModelDescription, "to_message", answer)


def breaking(folder: Path) -> subprocess.CompletedProcess[str]:
    """`buf breaking` against what was recorded of version 1."""
    command = [str(BUF), "breaking", str(folder), "--against", str(RECORDED)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_nothing_of_version_1_has_changed() -> None:
    done = breaking(PROTOS)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("name", "sound", "broken"),
    [
        ("target", "uint32 accepted = 1;", "uint32 accepted = 19;"),
        ("common", "uint32 kept_length = 1;", "uint64 kept_length = 1;"),
        ("draft", "rpc Draft(stream DraftRequest)", "rpc Propose(stream DraftRequest)"),
        ("model", "string dtype = 14;", "string number_type = 14;"),
    ],
)
def test_a_change_of_version_1_is_found(tmp_path: Path, name: str, sound: str, broken: str) -> None:
    folder = Path(shutil.copytree(PROTOS, tmp_path / "protos"))
    path = folder / "outrider" / "v1" / f"{name}.proto"
    text = path.read_text()
    assert sound in text
    path.write_text(text.replace(sound, broken))

    done = breaking(folder)

    assert done.returncode != 0
    assert f"{name}.proto" in done.stdout
