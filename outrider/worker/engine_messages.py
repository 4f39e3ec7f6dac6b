"""What a worker and its model process tell each other.

`number` names a job, `call` something that is answered once; both are the worker's to give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.engine.handles import HandleTable
from outrider.engine.ticket import Done
from outrider.errors import OutriderError
from outrider.worker.model_description import ModelDescription


@dataclass(frozen=True, slots=True)
class Submit:
    """Work on a job. `arrived`: perf_counter, which is one clock for all processes."""

    number: int
    job: Any
    stream: str
    arrived: float


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take a job back if its first forward has not begun; returns whether it was."""

    call: int
    number: int


@dataclass(frozen=True, slots=True)
class Abandon:
    """Nobody waits for the answers of a job any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Forget:
    """A stream has ended."""

    stream: str


@dataclass(frozen=True, slots=True)
class Act:
    """Do something quick with the KV states, between two forwards; returns what it returns."""

    call: int
    action: Callable[[HandleTable], Any]


@dataclass(frozen=True, slots=True)
class ReadMemory:
    """Returns a MemoryReport."""

    call: int


Request = Submit | Withdraw | Abandon | Forget | Act | ReadMemory


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is there, warm, and takes jobs."""

    description: ModelDescription


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """There will be no model; `reason` is the text of a ModelLoadError."""

    reason: str


@dataclass(frozen=True, slots=True)
class LoopState:
    """The model loop's figures when the messages after this one were sent."""

    queue_depth: int = 0
    forwards: int = 0
    price: float = 0.0


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer of a job."""

    number: int
    done: Done[Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """A job ended by an error."""

    number: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Returned:
    """What a call returned."""

    call: int
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """What a call raised."""

    call: int
    error: OutriderError


Report = Loaded | NotLoaded | LoopState | Answered | Failed | Returned | Raised
