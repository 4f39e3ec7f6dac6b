"""Where a teaching can be gone on with after it was ended in any way, even by kill -9."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from outrider.distill.corpus import put_tensors
from outrider.distill.errors import DistillError
from outrider.distill.training import Place, Training

WEIGHT, MEMORY = "weight", "memory"
STATE = "state"


def save_checkpoint(path: Path, training: Training, extra: Mapping[str, Any]) -> None:
    """All that the next step depends on, and `extra`, in one file that is there whole or not at
    all. Raises DistillError when it cannot be written; an earlier one stays then."""
    tensors: dict[str, torch.Tensor] = {}
    for name, weight in training.student.taught.items():
        tensors[f"{WEIGHT}.{name}"] = weight.detach()
        for part, value in training.optimizer.memory(weight).items():
            tensors[f"{MEMORY}.{part}.{name}"] = value
    about = {"place": asdict(training.place), **extra}
    put_tensors(path, tensors, {STATE: json.dumps(about)})


def load_checkpoint(path: Path, training: Training) -> dict[str, Any]:
    """Puts a training where the file left it; the `extra` that was saved. Raises DistillError."""
    about = read_about(path)
    try:
        with safe_open(path, framework="pt") as file, torch.no_grad():
            memories: dict[str, dict[str, torch.Tensor]] = {}
            for key in file.keys():  # noqa: SIM118 - not a mapping
                kind, _, rest = key.partition(".")
                if kind == MEMORY:
                    part, _, name = rest.partition(".")
                    memories.setdefault(name, {})[part] = file.get_tensor(key)
            for name, weight in training.student.taught.items():
                weight.copy_(file.get_tensor(f"{WEIGHT}.{name}"))
                training.optimizer.remember(weight, memories.get(name, {}))
    except Exception as error:
        raise DistillError(f"{path}: is not a checkpoint of this draft: {error}") from error
    training.go_on_from(Place(**about.pop("place")))
    return about


def read_about(path: Path) -> dict[str, Any]:
    """The place and what else was saved beside the tensors. Raises DistillError."""
    try:
        with safe_open(path, framework="pt") as file:
            about: dict[str, Any] = json.loads((file.metadata() or {})[STATE])
    except Exception as error:
        raise DistillError(f"{path}: cannot be read: {error}") from error
    return about
