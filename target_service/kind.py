"""What makes a worker a target."""

from __future__ import annotations

from grpc import aio

from outrider.engine.handles import StateLost
from outrider.v1 import model_pb2, target_pb2_grpc
from outrider.worker.server import WorkerKind
from outrider.worker.slot import WorkerSlot
from target_service.servicer import TargetRuntime, TargetServicer
from target_service.verification import verify
from target_service.verify_job import VerdictResult, VerifyJob, count_outputs

DECODE_TOKENS = "decode_tokens"
"""The feature of going on alone after a round; see VerifyRound.decode_tokens."""
COUPLED = "coupled"
"""The feature of judging by COUPLED."""
SERVICE_NAME = "outrider.v1.TargetService"


def target_kind(*, max_draft_length: int) -> WorkerKind[VerifyJob, VerdictResult | StateLost]:
    """What makes a worker a target."""

    def register(server: aio.Server, slot: WorkerSlot[TargetRuntime]) -> None:
        servicer = TargetServicer(slot, max_draft_length=max_draft_length)
        target_pb2_grpc.add_TargetServiceServicer_to_server(servicer, server)

    return WorkerKind(
        role=model_pb2.WORKER_ROLE_TARGET,
        service_name=SERVICE_NAME,
        register=register,
        start_work=verify,
        max_draft_length=max_draft_length,
        features=(DECODE_TOKENS, COUPLED),
        count_outputs=count_outputs,
    )
