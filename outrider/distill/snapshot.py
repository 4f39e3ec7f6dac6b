"""A student as the engine serves drafts."""

from __future__ import annotations

import copy

import torch

from outrider.distill.student import Student
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.transformers_model import TransformersModel


def served(student: Student, *, numbers: torch.dtype, context_length: int) -> TransformersModel:
    """A copy in those numbers, with room for two sequences of `context_length` ids."""
    network = copy.deepcopy(student.model)
    # Not what else it computes with: a worker that loads the draft keeps the angles of positions
    # in float32.
    for weight in network.parameters():
        weight.data = weight.data.to(numbers)
    layout = probe_kv_layout(network)
    return TransformersModel(
        network,
        context_length=context_length,
        draft_vocabulary=student.token_ids.to(network.device),
        kv=KvPool(layout, blocks=2 * layout.blocks_for(context_length)),
    )
