"""Several targets, drafts and coordinators as real processes, each worker behind a fault proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.rpc.channel import open_channel
from outrider.testing.fault_proxy import FaultProxy
from outrider.testing.processes import ServiceProcess
from outrider.v1 import generation_pb2, generation_pb2_grpc, model_pb2, model_pb2_grpc

READY_TIMEOUT_S = 120.0
POLL_S = 0.1
STOP_GRACE_S = 5.0

Settings = Mapping[str, str]


@dataclass(slots=True)
class Replica:
    """A worker's process and the only way to it that coordinators know."""

    process: ServiceProcess
    way: FaultProxy

    @property
    def name(self) -> str:
        """Such as target0."""
        return f"{self.process.name}{self.process.replica}"

    async def status(self) -> model_pb2.ModelServiceGetStatusResponse:
        """What it says of itself, asked without the proxy. Raises AioRpcError."""
        async with open_channel(self.process.address) as channel:
            stub = model_pb2_grpc.ModelServiceStub(channel)
            request = model_pb2.ModelServiceGetStatusRequest()
            return await stub.GetStatus(request, timeout=STOP_GRACE_S)


@dataclass(slots=True)
class Fleet:
    """All that runs."""

    targets: list[Replica]
    drafts: list[Replica]
    coordinators: list[ServiceProcess]

    @property
    def workers(self) -> list[Replica]:
        """Targets and drafts."""
        return [*self.targets, *self.drafts]

    @property
    def addresses(self) -> list[str]:
        """Where the coordinators listen."""
        return [coordinator.address for coordinator in self.coordinators]

    async def status(self, place: int = 0) -> generation_pb2.GenerationServiceGetStatusResponse:
        """What that coordinator says of itself and its workers. Raises AioRpcError."""
        async with open_channel(self.coordinators[place].address) as channel:
            stub = generation_pb2_grpc.GenerationServiceStub(channel)
            request = generation_pb2.GenerationServiceGetStatusRequest()
            return await stub.GetStatus(request, timeout=READY_TIMEOUT_S)

    async def usable(self, place: int = 0) -> None:
        """Returns once that coordinator can use every worker. Raises TimeoutError with reasons."""
        deadline = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while True:
            status = await self.status(place)
            workers = [*status.targets, *status.drafts]
            idle = [one for one in workers if not one.usable or one.resting_s]
            if not idle and len(workers) == len(self.workers):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError("; ".join(f"{one.address}: {one.reason}" for one in idle))
            await asyncio.sleep(POLL_S)


@asynccontextmanager
async def running_fleet(
    folder: Path,
    *,
    target: Settings,
    draft: Settings,
    coordinator: Settings | None = None,
    targets: int = 2,
    drafts: int = 2,
    coordinators: int = 1,
) -> AsyncIterator[Fleet]:
    """Starts everything at once, settings as of ServiceProcess, and stops it at the end.

    Every worker is usable to every coordinator when this is entered.
    """
    async with AsyncExitStack() as stack:

        def plan(name: str, settings: Settings, number: int) -> ServiceProcess:
            process = ServiceProcess(name, folder, settings, replica=str(number))
            stack.push_async_callback(_stop, process)
            return process

        async def way_to(process: ServiceProcess) -> Replica:
            proxy = await stack.enter_async_context(FaultProxy(process.address))
            return Replica(process, proxy)

        all_targets = [plan("target", target, number) for number in range(targets)]
        all_drafts = [plan("draft", draft, number) for number in range(drafts)]
        await _start(*all_targets, *all_drafts)
        fleet = Fleet(
            [await way_to(process) for process in all_targets],
            [await way_to(process) for process in all_drafts],
            [],
        )
        addresses = {
            "target_address": ",".join(one.way.address for one in fleet.targets),
            "draft_address": ",".join(one.way.address for one in fleet.drafts),
        }
        fleet.coordinators = [
            plan("coordinator", {**addresses, **(coordinator or {})}, number)
            for number in range(coordinators)
        ]
        await _start(*fleet.coordinators)
        for place in range(coordinators):
            await fleet.usable(place)
        yield fleet


async def _start(*processes: ServiceProcess) -> None:
    async with asyncio.TaskGroup() as starts:
        for process in processes:
            starts.create_task(asyncio.to_thread(process.start))


async def _stop(process: ServiceProcess) -> Any:
    return await asyncio.to_thread(process.stop)
