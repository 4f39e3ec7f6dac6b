"""Loads a worker's model as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from outrider.engine.compiler import keep_compiled_in
from outrider.engine.role import Role
from outrider.engine.threads import pin_thread
from outrider.engine.warm_up import warm_up
from outrider.settings import WorkerSettings
from outrider.worker.model_description import ModelDescription
from outrider.worker.tokenizer_files import read_tokenizer_files

if TYPE_CHECKING:
    from outrider.engine.transformers_model import TransformersModel

WARM_UP_ROWS = 5
COMPILED = "compiled"
"""Folder of compiled code in the cache."""

log = structlog.get_logger(__name__)


def load_worker_model(
    settings: WorkerSettings, role: Role
) -> tuple[TransformersModel, ModelDescription]:
    """A warm model and what there is to say about it, whoever serves it. Raises ModelLoadError.

    The calling thread stays on the model's cores.
    """
    # Slow to import, and of no use to a worker whose model is in another process.
    from outrider.engine.loading import load_model

    pin_thread(settings.model_cores)
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


def settle_model(settings: WorkerSettings, model: TransformersModel) -> None:
    """What is left to do on the thread that is to run the model. Raises ModelLoadError."""
    pin_thread(settings.model_cores)
    if settings.compile:
        keep_compiled_in(settings.cache_dir / COMPILED)
        model.compile(_report)


def _report(step: str) -> None:
    log.info("loading", step=step)
