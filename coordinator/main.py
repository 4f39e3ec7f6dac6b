"""Serves a coordinator."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

import structlog

from coordinator.endpoints import Endpoints
from coordinator.listener import public_listener
from coordinator.pools import Pools
from coordinator.replica_set import ReplicaSet
from coordinator.request import RequestLimits
from coordinator.servicer import GenerationServicer, GenerationTerms
from coordinator.speculation import SpeculationDefaults
from outrider import telemetry
from outrider.logs import configure_logs
from outrider.rpc.channel import Channels
from outrider.rpc.limits import MAX_DRAFT_ANSWER_BYTES
from outrider.rpc.ready import announce
from outrider.rpc.server import RpcServer, stop_signal
from outrider.rpc.tls import TlsFiles
from outrider.settings import CoordinatorSettings, DraftTrust
from outrider.settings.addresses import split_addresses
from outrider.settings.coordinator import SpeculationChoice
from outrider.v1 import generation_pb2, generation_pb2_grpc

SERVICE_NAME = "outrider.v1.GenerationService"
TARGET_SERVICE = "outrider.v1.TargetService"
DRAFT_SERVICE = "outrider.v1.DraftService"

DRAFTS_WAIT_S = 2.0

log = structlog.get_logger(__name__)


class CoordinatorServer:
    """A coordinator's server and the pools it works with."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._speculates = (
            settings.speculation is not SpeculationChoice.OFF and settings.draft_length != 0
        )
        # The authority is that of the workers: clients of the public edge need no certificate.
        tls = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
        drafts = settings.draft_address
        self.pools = Pools(
            targets=ReplicaSet(
                Endpoints(split_addresses(settings.target_address)),
                Channels(tls),
                health_name=TARGET_SERVICE,
            ),
            drafts=ReplicaSet(
                Endpoints(split_addresses(drafts) if drafts else ()),
                Channels(tls, max_receive_bytes=MAX_DRAFT_ANSWER_BYTES),
                health_name=DRAFT_SERVICE,
            ),
            tokenizer_digest=settings.tokenizer_digest,
        )
        self.rpc = RpcServer(
            public_listener(settings),
            service_names=[SERVICE_NAME],
        )
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(
            GenerationServicer(self.pools, _terms(settings)), self.rpc.grpc_server
        )

    async def start(self) -> None:
        """Listens and begins to look for the workers. Raises ListenError."""
        await self.rpc.start()
        self.pools.start()
        if self.pools.drafts.configured and not self._speculates:
            log.warning("drafts are configured, but by default none is used: speculation is off")

    async def become_ready(self) -> None:
        """Waits until the target and its tokenizer are known, then says SERVING for good.

        Drafts are waited for a moment too, so that the first requests have the help of those that
        are there.
        """
        await self.pools.became_ready.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAFTS_WAIT_S):
                await self.pools.drafts.look()
        await self.rpc.set_serving()

    async def stop(self, grace_s: float) -> None:
        """Drains, then leaves the workers."""
        await self.rpc.drain(grace_s)
        await self.pools.close()


async def serve_coordinator(settings: CoordinatorSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError."""
    stopping = stop_signal()
    flush_traces = telemetry.configure("outrider-coordinator", replica_id=secrets.token_hex(8))
    server = CoordinatorServer(settings)
    await server.start()
    log.info("waiting for the target", address=server.rpc.address, target=settings.target_address)
    try:
        ready = asyncio.create_task(server.become_ready())
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            ready.result()
            announce(server.rpc.address, settings.ready_file)
            log.info("serving", address=server.rpc.address)
            await stopped
        ready.cancel()
        log.info("draining")
        await server.stop(settings.drain_s)
    finally:
        flush_traces()
    return 0


def serve(settings: CoordinatorSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError."""
    configure_logs(level=settings.log_level, log_format=settings.log_format)
    return asyncio.run(serve_coordinator(settings))


def _terms(settings: CoordinatorSettings) -> GenerationTerms:
    return GenerationTerms(
        limits=RequestLimits(
            max_new_tokens=settings.max_new_tokens,
            speculation=SpeculationDefaults(
                mode=generation_pb2.SpeculationMode.Value(
                    f"SPECULATION_MODE_{settings.speculation.name}"
                ),
                draft_length=settings.draft_length,
                draft_ahead=settings.draft_ahead,
                branches=settings.draft_branches,
                copies=settings.copies,
                patience_s=settings.draft_timeout_ms / 1000,
            ),
        ),
        max_generations=settings.max_generations,
        max_waiting=settings.max_waiting,
        queue_wait_s=settings.queue_wait_s,
        trust_drafts=settings.draft_trust is DraftTrust.TRUSTED,
        target_wait_s=settings.target_wait_s,
    )
