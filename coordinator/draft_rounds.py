"""The rounds that a draft may still answer, and when its next token may come."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from coordinator.tracing import DraftTrace
from coordinator.worker_time import WorkerTime
from outrider.v1 import common_pb2

LONGEST_SILENCE_S = 3.0
"""A draft that is alive says so each second."""
MAX_UNANSWERED = 256


@dataclass(slots=True)
class AskedRound:
    """One round. `idle`: the draft had nothing else to do when it was asked.

    `due_s`: how long the first tokens below the committed ids were expected to take.
    `copies_alone`: nothing is to be drawn, and there were no tokens below the committed ids.
    """

    number: int
    committed_length: int
    due_s: float
    idle: bool
    trace: DraftTrace
    sent_at: float = field(default_factory=time.perf_counter)
    answered: bool = False
    copies_alone: bool = False

    def round_trip_s(
        self, tokens: Sequence[common_pb2.DraftToken], *, spent: WorkerTime, token_s: float
    ) -> float | None:
        """What the first tokens below the committed ids took beyond the draft's own time.

        None for any others. A draft that was at something else ends that first: on average half of
        the time of a token. Where copies alone were asked for, an answer without any tells as much.
        """
        first = not self.answered
        self.answered = True
        here = tokens[0].root_round == self.number if tokens else self.copies_alone
        if not (first and here):
            return None
        busy_s = 0.0 if self.idle else token_s / 2
        return max(0.0, time.perf_counter() - self.sent_at - spent.total_s - busy_s)

    def offered(self, tokens: Sequence[common_pb2.DraftToken]) -> int | None:
        """Of the first answer: how many copied tokens it has right below the committed ids; None
        where copies alone were not asked for."""
        if self.answered or not self.copies_alone:
            return None
        if tokens and tokens[0].root_round != self.number:
            return None
        return sum(1 for _ in takewhile(lambda token: token.copied, tokens))


class AskedRounds:
    """In the order in which they were asked. Times by time.perf_counter."""

    def __init__(self) -> None:
        self._rounds: dict[int, AskedRound] = {}
        self._due_at = 0.0
        self._heard_at = 0.0
        self._overdue_since: float | None = None
        self.awaited = False
        """The next token is waited for, and has not come yet."""

    @property
    def overdue(self) -> bool:
        """The next token was waited for in vain. That stands until a proposal comes, be it by
        another stream: a draft that never answers is waited for once."""
        return self._overdue_since is not None

    @overdue.setter
    def overdue(self, overdue: bool) -> None:
        self._overdue_since = time.perf_counter() if overdue else None

    @property
    def overdue_s(self) -> float:
        """For how long; 0: it is not."""
        return 0.0 if self._overdue_since is None else time.perf_counter() - self._overdue_since

    @property
    def any(self) -> bool:
        """The draft has something to do, as far as is known here."""
        return bool(self._rounds)

    @property
    def next_in_s(self) -> float:
        """When the next token may come, seconds from now; inf: none is under way.

        What is late is expected to be late by as much again. After a wait in vain nothing is
        expected until something comes.
        """
        if not self._rounds or self.overdue:
            return math.inf
        return abs(self._due_at - time.perf_counter())

    @property
    def gone_quiet(self) -> bool:
        """The draft has let rounds and time pass without a word."""
        oldest = next(iter(self._rounds.values()), None)
        if oldest is None:
            return False
        silence_s = time.perf_counter() - max(self._heard_at, oldest.sent_at)
        return silence_s > LONGEST_SILENCE_S or len(self._rounds) > MAX_UNANSWERED

    def ask(self, asked: AskedRound, *, continues: bool) -> None:
        """A round was sent. `continues`: it goes on from what the draft is at already."""
        if not (continues and self._rounds):
            self._due_at = asked.sent_at + asked.due_s
        self._rounds[asked.number] = asked

    def heard(self, number: int) -> AskedRound | None:
        """There is an answer to that round; None when it was not to be answered any more."""
        self._heard_at = time.perf_counter()
        return self._rounds.get(number)

    def reached(self, asked: AskedRound, *, next_in_s: float) -> None:
        """The draft has got as far as that round: those before it get no answer any more.

        `next_in_s`: when it may give the next token.
        """
        for number in [number for number in self._rounds if number < asked.number]:
            self.end(number)
        self._due_at = self._heard_at + next_in_s
        self.awaited = self.overdue = False

    def end(self, number: int) -> None:
        """That round has its last answer. The one after it is worked on now."""
        asked = self._rounds.pop(number, None)
        if asked is None:
            return
        asked.trace.end()
        latest = next(reversed(self._rounds.values()), None)
        if latest is not None:
            self._due_at = max(self._due_at, latest.sent_at + latest.due_s)

    def clear(self) -> None:
        """No answer comes any more."""
        for number in list(self._rounds):
            self.end(number)
