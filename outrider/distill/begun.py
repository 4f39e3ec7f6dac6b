"""What a teaching begins with: layers of the target, or a draft that is there already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from outrider.distill.choosing import layer_choices
from outrider.distill.errors import DistillError
from outrider.distill.plan import DistillPlan
from outrider.distill.student import check_layers
from outrider.engine.load_error import ModelLoadError
from outrider.engine.model_files import find_model_files


def with_draft_files(
    plan: DistillPlan, cache_dir: Path, progress: Callable[[str], None]
) -> DistillPlan:
    """The plan with the folder of the draft that it goes on from. Raises DistillError."""
    if plan.begin_from is None:
        return plan
    try:
        files = find_model_files(
            str(plan.begin_from), role="draft", cache_dir=cache_dir, progress=progress
        )
    except ModelLoadError as error:
        raise DistillError(f"--begin-from: {error}") from error
    if files.gguf is not None:
        raise DistillError(f"--begin-from: {files.gguf}: must be a folder with safetensors")
    return replace(plan, begin_from=files.folder)


def layer_ways(plan: DistillPlan, of: int) -> list[tuple[int, ...]]:
    """Which of a target's `of` layers are tried; one empty choice: those of the draft that is
    there. Raises DistillError."""
    if plan.begin_from is not None:
        return [()]
    if isinstance(plan.layers, tuple):
        check_layers(plan.layers, of)
        return [plan.layers]
    try:
        return layer_choices(plan.layers, of)
    except ValueError as error:
        raise DistillError(f"--layers: {error}") from error
