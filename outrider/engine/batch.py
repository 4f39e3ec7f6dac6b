"""All work that is live on the model thread, and the step that advances it."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from functools import partial
from typing import Generic, TypeVar

import torch

from outrider.engine.live_work import LiveWork, Submission
from outrider.engine.live_works import LiveWorks, reported
from outrider.engine.model import Chunk, Model, Sequence
from outrider.engine.prefill_slice import PrefillSlice
from outrider.engine.room import Room
from outrider.engine.schedule import schedule
from outrider.engine.soundness import sound_rows
from outrider.engine.step import Step, load_of
from outrider.engine.work import Recalled, Rider, Work
from outrider.errors import NumericalFailure, OutOfRange, PoolUnavailable

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


class Batch(Generic[ResultT]):
    """Live works, each of which waits for the logits of one chunk."""

    def __init__(
        self,
        model: Model,
        *,
        works: LiveWorks[ResultT],
        room: Room,
        prefill_slice: PrefillSlice,
        token_budget: int,
    ) -> None:
        """`token_budget`: most tokens of a forward."""
        self._model = model
        self._works = works
        self._room = room
        self._prefill_slice = prefill_slice
        self._token_budget = token_budget
        self._served: dict[str, int] = {}
        self._prompts_due = False
        self.forwards = 0

    def __len__(self) -> int:
        return len(self._works)

    @property
    def runnable(self) -> bool:
        """Some work has room, so a step would advance it."""
        return any(self._room.admits(work) for work in self._works)

    @property
    def deadline(self) -> float | None:
        """When a work will have waited too long for room; perf_counter."""
        return self._room.deadline

    def add(
        self, start: Callable[[JobT], Work[ResultT]], submission: Submission[JobT, ResultT]
    ) -> None:
        """Starts a job's work and runs it up to its first chunk."""
        served = self._served.get(submission.stream, 0)
        self._works.start(LiveWork(start, submission, served=served))

    def step(self) -> Step | None:
        """One forward over what the schedule takes. None if there was none, or if it failed."""
        self._works.take_outputs()
        self._refuse_lost_sequences()
        self._end_recalled()
        self._refuse_what_is_too_long()
        for work, error in self._room.admit(self._works, now=time.perf_counter()):
            self._works.fail(work, error)
        parts = self._parts()
        if not parts:
            return None
        riders = self._riders(parts)
        load = load_of([*parts.values(), *(rider.chunk for rider in riders)])
        began = time.perf_counter()
        if not self._forward(parts, riders, began=began) or not load.tokens:
            return None
        return Step(load, time.perf_counter() - began, self._works.take_outputs())

    def drop_unwanted(self) -> None:
        """Ends the works that nobody waits for, and those that were taken back."""
        self._works.drop_unwanted()

    def forget(self, stream: str) -> None:
        """The stream has ended."""
        self._served.pop(stream, None)

    def fail_all(self, error: Exception) -> None:
        """Ends all works."""
        for work in self._works:
            self._works.fail(work, error)

    def _refuse_lost_sequences(self) -> None:
        """Works on state that another stream took over end; of two on one, the newest stays."""
        taken: set[Sequence] = set()
        for work in reversed(list(self._works)):
            sequence = work.sequence
            if sequence.revoked or sequence in taken:
                self._works.fail(work, PoolUnavailable("another stream took over this KV state"))
            taken.add(sequence)

    def _end_recalled(self) -> None:
        """Works that were asked to end do so with what they have."""
        for work in self._works:
            if work.sequence.recalled:
                work.sequence.recalled = False
                self._works.advance(work, partial(work.failed, Recalled()))

    def _refuse_what_is_too_long(self) -> None:
        limit = self._model.context_length
        for work in self._works:
            length = len(work.sequence.prefix) + work.left
            if length > limit:
                error = OutOfRange("token_ids", f"at most {limit} together", got=length)
                self._works.fail(work, error)

    def _parts(self) -> dict[LiveWork[ResultT], Chunk]:
        """What the next forward reads, with blocks for it; from here on it has begun."""
        planned = self._planned()
        parts: dict[LiveWork[ResultT], Chunk] = {}

        def preempt(sequence: Sequence) -> None:
            lost = sequence.preempt()
            for work in [work for work in self._works if work.sequence is sequence]:
                planned.pop(work, None)
                parts.pop(work, None)
                work.replay(lost)

        while planned:
            work = next(iter(planned))
            part = work.slice(planned.pop(work))
            if self._room.reserve(work.sequence, len(part.token_ids), preempt=preempt):
                parts[work] = part
        return {work: part for work, part in parts.items() if self._works.begin(work)}

    def _planned(self) -> dict[LiveWork[ResultT], int]:
        """How many tokens each work may read in the next forward."""
        works = [work for work in self._works if self._room.admits(work)]
        for work in works:
            work.adopt()
        pending = [work.to_come for work in works]
        context = max((chunk.behind for chunk in pending if not chunk.small), default=0)

        def prefill_budget(small_tokens: int) -> int:
            return self._prefill_slice.tokens(small_tokens=small_tokens, context=context)

        counts = schedule(
            pending,
            token_budget=self._token_budget,
            prefill_budget=prefill_budget,
            prompts_due=self._prompts_due,
        )
        prompts = [count for chunk, count in zip(pending, counts, strict=True) if not chunk.small]
        self._prompts_due = bool(prompts) and not any(prompts)
        return {
            work: count for work, count in zip(works, counts, strict=True) if count or not work.left
        }

    def _riders(self, parts: dict[LiveWork[ResultT], Chunk]) -> list[Rider]:
        """Those of works whose chunk is read to its end now, as far as there is room."""
        room = self._token_budget - sum(len(part.token_ids) for part in parts.values())
        riders = []
        for work, part in parts.items():
            for rider in work.riders if len(part.token_ids) == work.left else ():
                count = len(rider.chunk.token_ids)
                if count <= room and self._room.carries(rider.chunk.sequence, count):
                    riders.append(rider)
                    room -= count
        return riders

    def _forward(
        self, parts: dict[LiveWork[ResultT], Chunk], riders: SequenceOf[Rider], *, began: float
    ) -> bool:
        chunks = [*parts.values(), *(rider.chunk for rider in riders)]
        try:
            rows = self._model.forward(chunks)
            sound = sound_rows(rows)
        except Exception as error:
            if isinstance(error, torch.AcceleratorError):
                # Raises again if the device is lost for good, which ends the thread.
                torch.accelerator.synchronize()
            failure = reported(error)
            for rider in riders:
                rider.chunk.sequence.discard()
            for work in parts:
                self._spoilt(work, failure)
            return False
        ended = time.perf_counter()
        self.forwards += 1
        ridden = zip(rows[len(parts) :], sound[len(parts) :], strict=True)
        for rider, (rider_rows, count) in zip(riders, ridden, strict=True):
            rider.rows = rider_rows[:count]
        for (work, part), part_rows, count in zip(parts.items(), rows, sound, strict=False):
            work.served = self.forwards
            if work.stream:
                self._served[work.stream] = self.forwards
            work.note_forward(began=began, ended=ended, batch_size=len(parts))
            if count or not part.rows:
                self._works.advance(work, partial(work.forwarded, part, part_rows[:count]))
            else:
                self._spoilt(work, NumericalFailure("the model gave NaN or infinite logits"))
        return True

    def _spoilt(self, work: LiveWork[ResultT], error: Exception) -> None:
        """Drops the state that a bad forward may have spoilt; the work decides what is left."""
        work.sequence.discard()
        self._works.advance(work, partial(work.failed, error))
