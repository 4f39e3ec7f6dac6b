"""The draft tokens of one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.replica import Replica
from coordinator.worker_time import WorkerTime
from outrider.v1 import common_pb2


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a round has verified, and how it came by it.

    `sources`: who drafted each token; `copied`: which were copied, as were the `run` output tokens
    right before them; `copies_alone`: nothing else was wanted. `want_bonus`: no token that was
    drawn lies ready for the place behind these. `wait_s`: how long the round waited for them;
    `draft`: as much of what the draft reported meanwhile as fits in there. `guess`: they hang below
    a side branch. `missed`: there should have been some.
    """

    tokens: Sequence[common_pb2.DraftToken] = ()
    sources: Sequence[Replica | None] = ()
    want_bonus: bool = True
    wait_s: float = 0.0
    draft: WorkerTime = field(default_factory=WorkerTime)
    guess: bool = False
    missed: bool = False
    copied: Sequence[bool] = ()
    run: int = 0
    copies_alone: bool = False

    @property
    def ready(self) -> bool:
        """All its tokens were there already."""
        return bool(self.tokens) and self.wait_s == 0.0
