"""Work: one round of one generation, written as a generator over forwards.

A work function yields the Chunk whose logits it needs next, receives them as a tensor
[rows, columns], and returns its result:

    def decode(sequence, token_id) -> Work[int]:
        rows = yield Chunk(sequence, [token_id], rows=1)
        return int(rows[0].argmax())

It may give answers before its last one by yielding them as `Answer`; it goes on at once, and what
it receives then means nothing. With `Together` other sequences ride along in the forward, for as
long as there is room to spare. `Recalled` is raised where it waits when it is to end with what it
has.

Fewer rows come when a later one is NaN or infinite: what follows it is worth nothing. A forward
that fails, or whose first row is so, is raised where the work waits, with the
sequence cleared. When older sequences need the room, the work loses its state too but notices
nothing: what it had is read again before its chunk.

The model thread advances all live work together: the chunks that are pending at a step share
one forward, whatever they are (prefill, draft steps, verification, plain decoding).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from outrider.engine.model import Chunk

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


@dataclass(slots=True, eq=False)
class Rider:
    """A chunk of a sequence of the work's own, read where nobody else needs the room.

    `rows` are its logits then, fewer where they are NaN or infinite; None: it was left out. A
    sequence that has given way to others has no state any more, and nobody reads it again.
    """

    chunk: Chunk
    rows: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Together:
    """A chunk, which may be empty, and the riders of the forward that reads the last of it."""

    chunk: Chunk
    riders: Sequence[Rider]


class Recalled(Exception):  # noqa: N818
    """The work is to end at once; its state is as it was."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[ResultT_co]):
    """A result before the last."""

    result: ResultT_co


Work = Generator[Chunk | Together | Answer[ResultT], torch.Tensor, ResultT]
