"""What is handed to the model thread, and what that thread waits for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from outrider.engine.gathering import Gathering
from outrider.engine.live_work import Submission
from outrider.errors import PoolUnavailable

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

RETRY_AFTER_S = 1.0


class Inbox(Generic[JobT, ResultT]):
    """Jobs and calls, for one thread to take. All else is for any thread."""

    def __init__(self, gathering: Gathering) -> None:
        """`gathering` says how long jobs wait for others to come; touched under the lock only."""
        self._gathering = gathering
        self._changed = threading.Condition()
        self._jobs: deque[Submission[JobT, ResultT]] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        self.is_open = False

    def open(self) -> None:
        """Takes jobs and calls from now on."""
        self.is_open = True

    def close(self) -> None:
        """Takes no more."""
        with self._changed:
            self.is_open = False
            self._changed.notify()

    def post(self, submission: Submission[JobT, ResultT]) -> None:
        """Queues a job. Raises PoolUnavailable when closed."""
        with self._changed:
            self._check_open()
            self._jobs.append(submission)
            if submission.stream:
                self._gathering.arrived(submission.stream, now=submission.arrived)
            self._changed.notify()

    def post_call(self, action: Callable[[], None]) -> None:
        """Queues an action, which goes before all jobs. Raises PoolUnavailable when closed."""
        with self._changed:
            self._check_open()
            self._calls.append(action)
            self._changed.notify()

    def answered(self, stream: str) -> None:
        """This stream is given its last answer at this moment."""
        with self._changed:
            self._gathering.answered(stream, now=time.perf_counter())

    def step_ended(self, *, step_s: float) -> None:
        """All answers of a step of that length are given."""
        with self._changed:
            self._gathering.step_ended(step_s=step_s)

    def forget(self, stream: str) -> None:
        """Nobody waits for this stream any more."""
        with self._changed:
            self._gathering.forget(stream)
            self._changed.notify()

    def wait(self, *, ready: bool, deadline: float | None) -> None:
        """Until there is something to do for the one thread.

        That is a call, the end, or a step that is due: with jobs here, or when `ready`, once
        the gathering is over; else at the `deadline` (perf_counter), if there is one.
        """
        with self._changed:
            while self.is_open and not self._calls:
                due = self._gathering.until if ready or self._jobs else deadline
                left = None if due is None else due - time.perf_counter()
                if left is not None and left <= 0:
                    return
                self._changed.wait(left)

    def gathers(self, *, ready: bool) -> bool:
        """A step has something to do, but others will be back in a moment."""
        with self._changed:
            waits = self._gathering.until > time.perf_counter()
            return self.is_open and waits and (ready or bool(self._jobs))

    def take_call(self) -> Callable[[], None] | None:
        """The first call."""
        with self._changed:
            return self._calls.popleft() if self._calls else None

    def take_jobs(self) -> Sequence[Submission[JobT, ResultT]]:
        """All jobs, oldest first."""
        with self._changed:
            jobs, self._jobs = self._jobs, deque()
            return jobs

    def _check_open(self) -> None:
        if not self.is_open:
            raise gone()


def gone() -> PoolUnavailable:
    """There is no thread any more that would do it."""
    return PoolUnavailable("the model thread has ended", retry_after_s=RETRY_AFTER_S)
