"""Serves a coordinator."""

from __future__ import annotations

import asyncio
import secrets

import structlog

from coordinator.pools import Pools
from coordinator.request import RequestLimits
from coordinator.servicer import GenerationServicer, GenerationTerms
from coordinator.speculation import SpeculationDefaults
from coordinator.worker import Worker
from outrider import telemetry
from outrider.logs import configure_logs
from outrider.rpc.channel import open_channel
from outrider.rpc.ready import announce
from outrider.rpc.server import Listener, RpcServer, stop_signal
from outrider.rpc.tls import TlsFiles
from outrider.settings import CoordinatorSettings, DraftTrust
from outrider.v1 import draft_pb2, generation_pb2, generation_pb2_grpc

SERVICE_NAME = "outrider.v1.GenerationService"
TARGET_SERVICE = "outrider.v1.TargetService"
DRAFT_SERVICE = "outrider.v1.DraftService"

CONNECTION_AGE_S = 600.0
"""Clients connect anew now and then, so that new replicas get some of them."""

log = structlog.get_logger(__name__)


class CoordinatorServer:
    """A coordinator's server and the pools it works with."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        # The authority is that of the workers: clients of the public edge need no certificate.
        tls = TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca)
        public_tls = TlsFiles(settings.tls_cert, settings.tls_key)
        self.pools = Pools(
            Worker(
                settings.target_address,
                open_channel(settings.target_address, tls),
                health_name=TARGET_SERVICE,
            ),
            Worker(
                settings.draft_address,
                open_channel(settings.draft_address, tls),
                health_name=DRAFT_SERVICE,
            )
            if settings.draft_address
            else None,
            tokenizer_digest=settings.tokenizer_digest,
        )
        self.rpc = RpcServer(
            Listener(
                settings.listen,
                public_tls,
                settings.max_request_bytes,
                connection_age_s=CONNECTION_AGE_S,
            ),
            service_names=[SERVICE_NAME],
        )
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(
            GenerationServicer(self.pools, _terms(settings)), self.rpc.grpc_server
        )

    async def start(self) -> None:
        """Listens and begins to look for the workers. Raises ListenError."""
        await self.rpc.start()
        self.pools.start()

    async def become_ready(self) -> None:
        """Waits until the target and its tokenizer are known, then says SERVING for good."""
        await self.pools.became_ready.wait()
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
    trusted = settings.draft_trust is DraftTrust.TRUSTED
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
                patience_s=settings.draft_timeout_ms / 1000,
            ),
        ),
        max_generations=settings.max_generations,
        draft_mode=(draft_pb2.DRAFT_MODE_SAMPLED if trusted else draft_pb2.DRAFT_MODE_GREEDY),
    )
