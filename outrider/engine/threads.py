"""How many threads the model's kernels use, and on which processor cores."""

from __future__ import annotations

import os
from contextlib import suppress

import torch

from outrider.core_list import write_cores
from outrider.engine.load_error import ModelLoadError


def configure_threads(count: int) -> None:
    """Sets the threads of torch in this process. 0 leaves torch's choice, one for each core."""
    if count > 0:
        torch.set_num_threads(count)
    # A model is one chain of operations: none ever runs beside another.
    with suppress(RuntimeError):  # It can be said once, before anything has run.
        torch.set_num_interop_threads(1)


def pin_thread(cores: frozenset[int]) -> None:
    """Keeps the calling thread, and all that it starts from now on, on these cores.

    Kernels start their threads from the one that calls them. No cores: nothing happens. Raises
    ModelLoadError for cores that are not there, and on systems that cannot do it.
    """
    if not cores:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise ModelLoadError("pin_cores: this system cannot keep threads on cores")
    allowed = os.sched_getaffinity(0)
    if missing := cores - allowed:
        raise ModelLoadError(
            f"pin_cores: this process may not use {write_cores(missing)}; "
            f"it may use {write_cores(frozenset(allowed))}"
        )
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        raise ModelLoadError(f"pin_cores: {write_cores(cores)}: {error.strerror}") from error
