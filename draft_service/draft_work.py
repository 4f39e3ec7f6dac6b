"""A draft's work on the model thread: one job after another, on the state of its stream."""

from __future__ import annotations

from dataclasses import replace

from draft_service.copybook import MOST_RECENT, Copybook, base_of
from draft_service.copying import Copying
from draft_service.draft_job import DraftJob, DraftResult
from draft_service.drafting import Drafting
from draft_service.orders import taking_orders
from draft_service.proposal import CandidateCut
from outrider.drafter import Drafter
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.model import Model
from outrider.engine.work import Answer, Work


def draft(
    job: DraftJob,
    *,
    model: Model,
    handles: HandleTable,
    cut: CandidateCut,
    drafter: Drafter = Drafter.MODEL,
    recent_ids: int = MOST_RECENT,
) -> Work[DraftResult | StateLost]:
    """Reads what is committed and known, and drafts on, one token after the other.

    How many tokens there are, and how many in one answer, depends on lengths alone, and where some
    are copied, on the ids before those. The last one is not read by a forward: it comes back as a
    committed one if it is accepted. When a later token cannot be had, the ones already drawn are
    given all the same: holding one back for what follows it would bias the output. Goes on with
    another job when ordered to. `recent_ids`: most of the outputs of a cache scope that are copied
    from in other generations.
    """
    copybook = _copybook(handles, drafter, recent_ids)
    while True:
        base = base_of(job) if copybook is None else copybook.base(job, handles)
        with handles.working_on(
            job.handle_id,
            owner=job.owner,
            base_length=base.length,
            prefix_digest=base.digest,
            following=base.following,
        ) as sequence:
            if isinstance(sequence, StateLost):
                return sequence
            with taking_orders(handles, owner=job.owner, reach=job.reach) as orders:
                copying = None
                if copybook is not None:
                    text = copybook.text(job, sequence, handles)
                    copying = Copying(text, job.known, terms=job.terms, drafter=drafter)
                drafting = Drafting(
                    job, model=model, sequence=sequence, cut=cut, drafter=drafter, copying=copying
                )
                result = yield from drafting.run(orders)
        if orders.job is None:
            return result
        yield Answer(replace(result, replaced=True))
        job = orders.job


def _copybook(handles: HandleTable, drafter: Drafter, recent_ids: int) -> Copybook | None:
    """The worker's, if it copies."""
    if not drafter.copies:
        return None
    if handles.notes is None:
        handles.notes = Copybook(drafter, recent_ids=recent_ids)
    copybook: Copybook = handles.notes
    return copybook
