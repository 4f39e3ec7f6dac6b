"""Which compiler torch.compile uses on a device, and where it keeps what it made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.fx.experimental import _config

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


@dataclass(frozen=True, slots=True)
class Compiler:
    """`backend` and `options` are torch.compile's.

    `runs`: how often a shape is run until it is as fast as it gets. `reuses_output`: the next run
    writes over what a run gave.
    """

    backend: str | Callable[..., Any] = "inductor"
    options: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 1
    reuses_output: bool = False

    def compile(self, function: FunctionT) -> FunctionT:
        """The function as one graph, compiled at its first call and never again.

        Raises then what the compiler raises; later FailOnRecompileLimitHit for inputs that would
        need another graph.
        """
        compiled: FunctionT = torch.compile(  # type: ignore[call-overload]
            function,
            fullgraph=True,
            recompile_limit=1,
            isolate_recompiles=True,
            backend=self.backend,
            options=dict(self.options) or None,
        )
        return compiled

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Around the first call.

        What traces the function asks for the options on its own, and takes sizes of one for sizes
        like any other, which it does not by itself.
        """
        with (
            torch._inductor.config.patch(dict(self.options)),
            _config.patch(backed_size_oblivious=True),  # type: ignore[attr-defined]
        ):
            yield


# Constant weights are packed for the processor's matrix kernels, once.
ON_CPU = Compiler(options={"freezing": True})

# As mode="reduce-overhead", but that a graph for each size is what is wanted. The runs: a warm-up,
# the recording, the first replay.
ON_CUDA = Compiler(
    options={"triton.cudagraphs": True, "triton.cudagraph_dynamic_shape_warn_limit": None},
    runs=3,
    reuses_output=True,
)


def compiler_for(device: torch.device) -> Compiler:
    """What suits a device."""
    return ON_CUDA if device.type == "cuda" else ON_CPU


def keep_compiled_in(folder: Path) -> None:
    """Says where compiled code goes, in this process, unless the environment said so.

    torch sets the variable to its default, a folder for temporary files, when it is imported.
    """
    if os.environ.get(CACHE_VARIABLE, default_cache_dir()) == default_cache_dir():
        os.environ[CACHE_VARIABLE] = str(folder)
