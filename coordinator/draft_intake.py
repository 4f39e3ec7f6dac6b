"""What a draft sends, hung on the draft tree; and what it shows, told to the policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto

from coordinator.draft_plan import DraftFacts, ForesightFacts
from coordinator.draft_tree import Arrival, DraftTree
from coordinator.policy import GenerationPolicy
from coordinator.replica import Replica
from coordinator.worker_time import WorkerTime
from outrider.v1 import common_pb2

MAX_TOKEN_BYTES = 4096
"""More than any lawful token takes with its law: a round of them always fits into a message."""


class DraftLaw(Enum):
    """What is kept of the laws that draft tokens come with."""

    REPORTED = auto()
    """The draft is trusted: its token was drawn from what it says."""
    POINT_MASS = auto()
    """It is not: its token is verified as if it had not been drawn at all."""
    NONE = auto()
    """Verification needs no law."""

    def put_on(self, token: common_pb2.DraftToken) -> None:
        """Changes the token in place."""
        if self is not DraftLaw.REPORTED:
            token.ClearField("law")
        if self is DraftLaw.POINT_MASS:
            token.point_mass.SetInParent()

    def of(self, token: common_pb2.DraftToken, *, believed: bool) -> DraftLaw:
        """What is kept of that token's. `believed`: the draft that sent it is.

        One that was copied was not drawn, whatever it says.
        """
        if self is DraftLaw.REPORTED and (token.copied or not believed):
            return DraftLaw.POINT_MASS
        return self


class DraftIntake:
    """Takes the proposals of one generation's draft."""

    def __init__(self, tree: DraftTree, policy: GenerationPolicy, *, law: DraftLaw) -> None:
        """`law`: what is kept of laws as long as the draft is trusted."""
        self._tree = tree
        self._policy = policy
        self._law = law
        self.time = WorkerTime()
        """What the draft reported so far."""
        self.stale_proposals = 0
        """Proposals with tokens of which none could be used any more."""
        self.stale_tokens = 0
        """Tokens that came too late, hung nowhere or were too large."""

    def take(
        self,
        tokens: Sequence[common_pb2.DraftToken],
        *,
        source: Replica,
        until_length: int,
        spent: WorkerTime,
        round_trip_s: float | None,
        offered: int | None = None,
    ) -> None:
        """Hangs the tokens of a proposal on the tree, up to a length of the sequence.

        `source`: who sent them. `spent`: its time for them. `round_trip_s` as in DraftFacts, of
        which `offered` is `copied`.
        """
        kept = 0
        steps = forwards(tokens)
        rows = sum(not (token.guess or token.copied) for token in tokens)
        believed = source.honesty.trusted
        for token in tokens:
            drawn, copied = not token.guess, token.copied
            self._law.of(token, believed=believed).put_on(token)
            arrival = self._hang(token, source=source, until_length=until_length)
            kept += arrival is Arrival.KEPT
            self.stale_tokens += arrival in (Arrival.CAME_FALSE, Arrival.STALE)
            if drawn and arrival in (Arrival.CAME_TRUE, Arrival.CAME_FALSE):
                matched = arrival is Arrival.CAME_TRUE
                self._policy.foresaw(ForesightFacts(matched=matched, copied=copied))
        if tokens and not kept:
            self.stale_proposals += 1
        self.time += spent
        if steps:
            source.pace.drafted(steps=steps, seconds=spent.total_s)
        if tokens or offered is not None:
            self._policy.drafted(
                DraftFacts(
                    tokens=rows,
                    steps=steps,
                    model_s=spent.model_s,
                    queue_s=spent.queue_s,
                    round_trip_s=round_trip_s,
                    copied=offered,
                )
            )

    def refuse(self, tokens: Sequence[common_pb2.DraftToken]) -> None:
        """Counts a proposal that is not looked at."""
        self.stale_proposals += 1
        self.stale_tokens += len(tokens)

    def _hang(self, token: common_pb2.DraftToken, *, source: Replica, until_length: int) -> Arrival:
        if token.ByteSize() > MAX_TOKEN_BYTES:
            return Arrival.STALE
        return self._tree.add(token, source=source, until_length=until_length)


def forwards(tokens: Iterable[common_pb2.DraftToken]) -> int:
    """How many forwards of the draft the tokens of one proposal took at least.

    Chains grow side by side by a token in each forward; a guess takes none of its own, nor does a
    copied token.
    """
    depths: dict[int, int] = {}
    for token in tokens:
        made = not (token.guess or token.copied)
        depths[token.node_id] = depths.get(token.parent_node_id, 0) + made
    return max(depths.values(), default=0)
