"""Refuses models whose cached state cannot be rolled back to any earlier length.

A rejected draft token has to leave no trace. Full attention keeps one entry for each token, which
is dropped; a window has overwritten what an earlier position needs, and a recurrent state has
mixed the token in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from outrider.engine.load_error import ModelLoadError
from outrider.engine.model import Chunk
from outrider.engine.transformers_model import TransformersModel

FULL_ATTENTION = "full_attention"
# Their frequencies change with the length reached, so keys in the cache depend on history.
GROWING_ROPES = ("dynamic", "longrope")


def check_layers(model: PreTrainedModel, *, context_length: int) -> None:
    """Looks at what the configuration says of each layer. Raises ModelLoadError."""
    config = model.config.get_text_config(decoder=True)
    for index, kind in enumerate(getattr(config, "layer_types", None) or ()):
        if kind != FULL_ATTENTION:
            raise ModelLoadError(_refusal(index, str(kind)))
    try:
        layers = DynamicCache(config=config).layers
    except Exception as error:
        raise ModelLoadError(
            f"layer 0: a model of type {config.model_type} keeps no cache that can be rolled back"
        ) from error
    for index, layer in enumerate(layers):
        if type(layer) is DynamicSlidingWindowLayer:
            raise ModelLoadError(_refusal(index, f"sliding window of {layer.sliding_window}"))
        if type(layer) is not DynamicLayer:
            raise ModelLoadError(_refusal(index, type(layer).__name__))
    _check_rope(config, context_length)


def check_behaviour(model: TransformersModel) -> None:
    """Extends, rolls back and extends again: must be as if nothing had been there.

    Raises ModelLoadError.
    """
    ids = [token_id % model.vocabulary_size for token_id in range(3, 35)]
    kept, rejected, accepted = ids[:8], ids[8:20], ids[20:]
    used, fresh = model.new_sequence(), model.new_sequence()
    try:
        model.forward([Chunk(used, kept, 0)])
        model.forward([Chunk(used, rejected, 0)])
        used.rollback(len(kept))
        again = model.forward([Chunk(used, accepted, len(accepted))])[0]
        model.forward([Chunk(fresh, kept, 0)])
        expected = model.forward([Chunk(fresh, accepted, len(accepted))])[0]
    except Exception as error:
        raise ModelLoadError(
            f"the model fails when its cache is rolled back: {type(error).__name__}: {error}"
        ) from error
    for index, layer in enumerate(used.cache.layers):
        if layer.get_seq_length() != len(kept) + len(accepted):
            raise ModelLoadError(_refusal(index, type(layer).__name__))
    # The same shapes in the same order: rounding is the same too, up to the kernels' freedom.
    spread = float(expected.float().std().clamp_min(1e-6))
    if not torch.allclose(again.float(), expected.float(), rtol=0.0, atol=0.02 * spread):
        index = _first_differing_layer(used.cache.layers, fresh.cache.layers)
        raise ModelLoadError(_refusal(index, "its output depends on what was rolled back"))


def _check_rope(config: Any, context_length: int) -> None:
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    for rope in nested or [parameters]:
        edge = rope.get("original_max_position_embeddings") or getattr(
            config, "original_max_position_embeddings", config.max_position_embeddings
        )
        if rope.get("rope_type") in GROWING_ROPES and context_length > edge:
            raise ModelLoadError(
                f"rope of type {rope['rope_type']}: keys depend on the length reached beyond "
                f"{edge} tokens and cannot be rolled back; a context length up to {edge} works"
            )


def _first_differing_layer(used: Sequence[Any], fresh: Sequence[Any]) -> int:
    for index, (one, other) in enumerate(zip(used, fresh, strict=True)):
        if not torch.allclose(one.keys.float(), other.keys.float(), rtol=0.0, atol=1e-2):
            return index
    return 0


def _refusal(index: int, kind: str) -> str:
    return f"layer {index} cannot be rolled back: {kind}; only full attention can"
