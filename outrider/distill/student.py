"""The draft that is taught: some of the target's own layers, and its frozen embedding."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from outrider.distill.errors import DistillError
from outrider.engine.draft_head import check_head, head_rows

PER_LAYER = ("layer_types", "no_rope_layers", "mlp_only_layers", "attention_layers")
"""Settings that have an entry for each layer."""


HEAD_IDS = 64
"""Ids that a head is tried with."""


class Student:
    """A network with fewer layers than the target, and a head over part of the vocabulary."""

    def __init__(self, model: PreTrainedModel, token_ids: torch.Tensor) -> None:
        """`token_ids`: the draft vocabulary, int64, rising. Embedding and head are not taught.

        Nothing is dropped out by chance: what is learnt is the target's law itself, and two runs
        are to agree.
        """
        self.model = model.float().eval()
        self.token_ids = token_ids
        for frozen in (model.get_input_embeddings(), model.get_output_embeddings()):
            frozen.requires_grad_(False)
        with torch.no_grad():
            self._head = head_rows(model, token_ids).clone()

    @property
    def taught(self) -> dict[str, torch.nn.Parameter]:
        """What is taught, by name."""
        return {
            name: weight for name, weight in self.model.named_parameters() if weight.requires_grad
        }

    def logits(self, token_ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """What it says follows some of these ids [texts, longest], each text causal by itself.

        `places`, int64 [places], index the flattened ids. [places, draft vocabulary]
        """
        hidden = self.model.base_model(token_ids, use_cache=False).last_hidden_state
        return torch.nn.functional.linear(hidden.flatten(0, 1)[places], self._head)


def student_of(target: PreTrainedModel, layers: Sequence[int]) -> PreTrainedModel:
    """A model with those layers of a target, in that order; everything else is the target's.

    Raises DistillError when they are no layers of it, or it is not built of layers.
    """
    prefix, count = layer_stack(target)
    check_layers(layers, count)
    config = _with_layers(target.config, layers, count)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    pattern = re.compile(rf"{re.escape(prefix)}\.(\d+)\.(.+)")
    weights = target.state_dict()
    own = {}
    for name in model.state_dict():
        found = pattern.fullmatch(name)
        source = f"{prefix}.{layers[int(found[1])]}.{found[2]}" if found else name
        own[name] = weights[source].float()
    model.load_state_dict(own)
    model.tie_weights()
    return model


def check_network(model: PreTrainedModel, name: str) -> None:
    """Raises DistillError where no draft can be made of it: its head cannot be cut."""
    try:
        check_head(model, torch.arange(HEAD_IDS))
    except ValueError as error:
        raise DistillError(f"{name}: {error}") from error


def check_layers(layers: Sequence[int], count: int) -> None:
    """Raises DistillError unless these are some of `count` layers."""
    if not layers or any(not 0 <= layer < count for layer in layers):
        got = ",".join(map(str, layers))
        raise DistillError(f"--layers: the target's are 0 to {count - 1}, got {got}")


def layer_stack(model: PreTrainedModel) -> tuple[str, int]:
    """The name and size of the list of a model's layers. Raises DistillError."""
    count = int(model.config.get_text_config(decoder=True).num_hidden_layers)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count:
            return name, count
    raise DistillError(f"{type(model).__name__}: has no list of {count} layers to take some of")


def load_student(folder: Path, target: PreTrainedModel) -> PreTrainedModel:
    """A draft's network from its folder. Raises DistillError, also when its ids are not those of
    the target."""
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
    except Exception as error:
        raise DistillError(f"{folder}: no draft to go on from: {error}") from error
    own, needed = (
        int(one.config.get_text_config(decoder=True).vocab_size) for one in (model, target)
    )
    if own != needed:
        raise DistillError(f"{folder}: no draft of this target: {own} ids instead of {needed}")
    return model


def _with_layers(config: Any, layers: Sequence[int], count: int) -> Any:
    config = copy.deepcopy(config)
    for name in PER_LAYER:
        entries = getattr(config, name, None)
        if isinstance(entries, list) and len(entries) == count:
            setattr(config, name, [entries[layer] for layer in layers])
    config.num_hidden_layers = len(layers)
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(config, name):
            delattr(config, name)
    return config
