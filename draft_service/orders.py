"""What drafting under way is told by later rounds. The callables run on the model thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from draft_service.draft_job import DraftJob
from draft_service.reach import Reach
from outrider.engine.handles import HandleTable


@dataclass(slots=True)
class Orders:
    """How far to go, and what to begin in place of the job under way."""

    reach: Reach
    job: DraftJob | None = None


@contextmanager
def taking_orders(handles: HandleTable, *, owner: str, reach: Reach) -> Iterator[Orders]:
    """Orders for a stream's drafting, which later rounds may change until it ends."""
    orders = handles.orders[owner] = Orders(reach)
    try:
        yield orders
    finally:
        del handles.orders[owner]


@dataclass(frozen=True, slots=True)
class GoOn:
    """Lets a stream's drafting go on as that of a later round, which follows what it drafted."""

    owner: str
    reach: Reach

    def __call__(self, handles: HandleTable) -> bool:
        """Whether there is such drafting."""
        orders = handles.orders.get(self.owner)
        if orders is None:
            return False
        orders.reach = self.reach
        return True


@dataclass(frozen=True, slots=True)
class TakeUp:
    """Has a stream's drafting end before its next forward, and begin another job at once."""

    job: DraftJob

    def __call__(self, handles: HandleTable) -> bool:
        """Whether there is such drafting."""
        orders = handles.orders.get(self.job.owner)
        if orders is None:
            return False
        orders.job = self.job
        handles.recall(self.job.handle_id, owner=self.job.owner)
        return True


@dataclass(frozen=True, slots=True)
class EndDrafting:
    """Ends a stream's drafting before its next forward."""

    handle_id: str
    owner: str

    def __call__(self, handles: HandleTable) -> None:
        """Does nothing where there is none."""
        handles.recall(self.handle_id, owner=self.owner)
