"""Loads a worker's model as its settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import structlog

from outrider.engine.compiler import keep_compiled_in
from outrider.engine.model import Model
from outrider.engine.role import Role
from outrider.engine.threads import pin_thread
from outrider.engine.warm_up import warm_up
from outrider.settings import DraftSettings, WorkerSettings
from outrider.worker.model_description import ModelDescription
from outrider.worker.tokenizer_files import read_tokenizer_files

WARM_UP_ROWS = 5
COMPILED = "compiled"
"""Folder of compiled code in the cache."""

NO_NUMBERS = "none"
"""The dtype of a draft without weights."""

log = structlog.get_logger(__name__)


@runtime_checkable
class Compilable(Protocol):
    """A model that can run compiled; one without weights cannot."""

    def compile(self, progress: Callable[[str], None]) -> Any: ...


def load_worker_model(settings: WorkerSettings, role: Role) -> tuple[Model, ModelDescription]:
    """A warm model and what there is to say about it, whoever serves it. Raises ModelLoadError.

    The calling thread stays on the model's cores.
    """
    pin_thread(settings.model_cores)
    if isinstance(settings, DraftSettings) and not settings.drafter.draws:
        return _load_ids_alone(settings)
    return _load_weights(settings, role)


def settle_model(settings: WorkerSettings, model: Model) -> None:
    """What is left to do on the thread that is to run the model. Raises ModelLoadError."""
    pin_thread(settings.model_cores)
    if settings.compile and isinstance(model, Compilable):
        keep_compiled_in(settings.cache_dir / COMPILED)
        model.compile(_report)


def _load_weights(settings: WorkerSettings, role: Role) -> tuple[Model, ModelDescription]:
    # Slow to import, and of no use to a worker whose model is in another process.
    from outrider.engine.loading import load_model

    loaded = load_model(
        settings.model,
        role=role,
        dtype=settings.dtype.value,
        device=settings.device,
        threads=settings.model_threads,
        cache_dir=settings.cache_dir,
        context_length=settings.context_length,
        kv_memory=settings.kv_budget,
        block_size=settings.kv_block_size,
        progress=_report,
    )
    warm_up(loaded.model, WARM_UP_ROWS)
    description = ModelDescription(
        weights_digest=loaded.weights_digest,
        weights_bytes=loaded.model.weights_bytes,
        vocabulary_size=loaded.model.vocabulary_size,
        context_length=loaded.model.context_length,
        dtype=loaded.dtype,
        device=loaded.device,
        eos_token_ids=tuple(loaded.eos_token_ids),
        bos_token_id=loaded.bos_token_id,
        tokenizer=read_tokenizer_files(loaded.folder),
    )
    return loaded.model, description


def _load_ids_alone(settings: WorkerSettings) -> tuple[Model, ModelDescription]:
    from outrider.engine.copying_files import load_copying_model

    loaded = load_copying_model(
        settings.model,
        cache_dir=settings.cache_dir,
        context_length=settings.context_length,
        block_size=settings.kv_block_size,
    )
    description = ModelDescription(
        weights_digest="",
        vocabulary_size=loaded.model.vocabulary_size,
        context_length=loaded.model.context_length,
        dtype=NO_NUMBERS,
        device="cpu",
        tokenizer=read_tokenizer_files(loaded.folder),
    )
    return loaded.model, description


def _report(step: str) -> None:
    log.info("loading", step=step)
