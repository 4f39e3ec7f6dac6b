"""What a model process is told at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider.engine.live_works import no_outputs
from outrider.engine.model import Model
from outrider.worker.engine import EngineOptions, StartWork
from outrider.worker.model_description import ModelDescription

LoadModel = Callable[[], tuple[Model, ModelDescription]]
"""Gives a warm model and what there is to say about it. Raises ModelLoadError."""


def settled(model: Any) -> None:
    """There is nothing left to do."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """All of it can be pickled: functions are those of modules, or partial ones of those.

    `count_outputs`: how many output tokens a result holds. `settle`: what is to be done with the
    model on its thread, before it serves; it may raise ModelLoadError.
    """

    load: LoadModel
    start_work: StartWork[Any, Any]
    options: EngineOptions
    log_level: str
    log_format: str
    count_outputs: Callable[[Any], int] = no_outputs
    settle: Callable[[Any], None] = settled
