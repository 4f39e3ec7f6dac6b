"""What makes a worker a draft."""

from __future__ import annotations

from functools import partial

from grpc import aio

from draft_service.copybook import MOST_RECENT
from draft_service.draft_job import DraftJob, DraftResult
from draft_service.draft_work import draft
from draft_service.handler import DraftRuntime
from draft_service.proposal import CandidateCut
from draft_service.servicer import DraftServicer
from outrider.drafter import Drafter
from outrider.engine.handles import StateLost
from outrider.v1 import draft_pb2_grpc, model_pb2
from outrider.worker.server import WorkerKind
from outrider.worker.slot import WorkerSlot

SERVICE_NAME = "outrider.v1.DraftService"
COPIES = "copies"
"""The feature of a draft that may copy beyond what it was asked to draw."""


def draft_kind(
    cut: CandidateCut, drafter: Drafter = Drafter.MODEL, *, recent_ids: int = MOST_RECENT
) -> WorkerKind[DraftJob, DraftResult | StateLost]:
    """What makes a worker a draft. `recent_ids`: most ids of recent outputs of one cache scope that
    are kept to be copied from; 0: none."""

    def register(server: aio.Server, slot: WorkerSlot[DraftRuntime]) -> None:
        draft_pb2_grpc.add_DraftServiceServicer_to_server(DraftServicer(slot), server)

    return WorkerKind(
        role=model_pb2.WORKER_ROLE_DRAFT,
        service_name=SERVICE_NAME,
        register=register,
        start_work=partial(draft, cut=cut, drafter=drafter, recent_ids=recent_ids),
        features=(COPIES,) if drafter.copies else (),
        drafter=drafter.value,
    )
