"""How far a Round lets the draft go, and what is told to drafting that is under way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from outrider.engine.handles import HandleTable


@dataclass(frozen=True, slots=True)
class Reach:
    """Lengths in ids, prompt included.

    Tokens below `proposal_until` are given together, those from there on with each forward;
    nothing is drafted from `until` on. `branches`: most side branches beside the tokens below
    `proposal_until`, each with `branch_length` tokens below its first; `acceptance` says where
    they are likely to be needed, 0 if that is not known.
    """

    committed_length: int
    proposal_until: int
    until: int
    branches: int = 0
    branch_length: int = 0
    acceptance: float = 0.0


@dataclass(slots=True)
class Orders:
    """What drafting under way was told last."""

    reach: Reach


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
    """Lets a stream's drafting go on as that of a later round, if it is still under way."""

    owner: str
    reach: Reach

    def __call__(self, handles: HandleTable) -> bool:
        """Runs on the model thread; whether there is such drafting."""
        orders = handles.orders.get(self.owner)
        if orders is None:
            return False
        orders.reach = self.reach
        return True


@dataclass(frozen=True, slots=True)
class EndDrafting:
    """Ends a stream's drafting before its next forward."""

    handle_id: str
    owner: str

    def __call__(self, handles: HandleTable) -> None:
        """Runs on the model thread."""
        handles.recall(self.handle_id, owner=self.owner)
