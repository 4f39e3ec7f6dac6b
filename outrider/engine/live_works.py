"""The works that are live on the model thread: started, advanced, answered, ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import structlog

from outrider.engine.live_work import LiveWork
from outrider.engine.unbegun import Unbegun
from outrider.errors import InternalFailure, NumericalFailure, OutriderError

ResultT = TypeVar("ResultT")

log = structlog.get_logger(__name__)


class LiveWorks(Generic[ResultT]):
    """Oldest first. Whatever goes wrong in a work is its own."""

    def __init__(
        self,
        unbegun: Unbegun,
        *,
        answering: Callable[[str], None],
        count_outputs: Callable[[ResultT], int],
    ) -> None:
        """`answering` is told a stream whose last answer is about to be handed over.

        `count_outputs`: how many output tokens a result holds.
        """
        self._unbegun = unbegun
        self._answering = answering
        self._count_outputs = count_outputs
        self._live: dict[LiveWork[ResultT], None] = {}
        self._outputs = 0

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[LiveWork[ResultT]]:
        """Those that are live now; they may end meanwhile."""
        return iter(list(self._live))

    def __contains__(self, work: object) -> bool:
        return work in self._live

    def take_outputs(self) -> int:
        """Output tokens in the answers since the last time."""
        outputs, self._outputs = self._outputs, 0
        return outputs

    def start(self, work: LiveWork[ResultT]) -> None:
        """Runs a new work up to its first chunk, unless nobody waits for it."""
        if not self._wanted(work):
            self._unbegun.take(work.ticket)
            return
        self._live[work] = None
        self.advance(work, work.begin)

    def advance(self, work: LiveWork[ResultT], action: Callable[[], None]) -> None:
        """Lets one work go on and hands over what it answers."""
        try:
            try:
                action()
            finally:
                self._hand_over(work)
        except Exception as error:
            self.fail(work, reported(error))

    def begin(self, work: LiveWork[ResultT]) -> bool:
        """From here on it cannot be taken back. False: it was, and has ended."""
        if not work.begun and not self._unbegun.take(work.ticket):
            self.end(work)
            return False
        work.begun = True
        return True

    def fail(self, work: LiveWork[ResultT], error: Exception) -> None:
        """Ends a work by an error."""
        if work in self._live and self.begin(work):
            self.end(work)
            work.ticket.fail(error)

    def end(self, work: LiveWork[ResultT]) -> None:
        """Ends a work that nobody waits for."""
        del self._live[work]
        self._unbegun.take(work.ticket)
        try:
            work.close()
        except Exception:
            log.exception("a work did not close")

    def drop_unwanted(self) -> None:
        """Ends the works that nobody waits for, and those that were taken back."""
        for work in self:
            if not self._wanted(work):
                self.end(work)

    def _wanted(self, work: LiveWork[ResultT]) -> bool:
        return not work.ticket.abandoned and (work.begun or work.ticket in self._unbegun)

    def _hand_over(self, work: LiveWork[ResultT]) -> None:
        answers, work.answers = work.answers, []
        if not answers or not self.begin(work):
            return
        if answers[-1].last:
            del self._live[work]
            if work.stream:
                self._answering(work.stream)
        for done in answers:
            work.ticket.deliver(done)
        self._outputs += sum(self._count_outputs(done.result) for done in answers)


def reported(error: Exception) -> OutriderError:
    """What the caller may see of an error; anything unexpected stays in the log."""
    if isinstance(error, NumericalFailure):
        # A model in too narrow a type of numbers goes unnoticed otherwise: a draft only slows down.
        log.warning("the model gave NaN or infinite logits")
    if isinstance(error, OutriderError):
        return error
    log.error("work on the model thread failed", exc_info=error)
    return InternalFailure("the model worker failed; its log says why")


def no_outputs(result: Any) -> int:
    """Results that hold no output tokens: there is no price then."""
    return 0
