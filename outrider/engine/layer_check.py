"""Refuses models whose layers the engine does not know, by what their configuration says.

A rejected draft token has to leave no trace, and sequences of one batch must not change each
other. Keys and values that are kept for each token allow that, whatever rule says which of them
are seen. A recurrent state has mixed the token in, and a rope that grows with the length reached
turns keys that are stored already, and those of its neighbours.
"""

from __future__ import annotations

from typing import Any

from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from outrider.engine.load_error import ModelLoadError

LAYER_KINDS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
CACHE_KINDS = (DynamicLayer, DynamicSlidingWindowLayer)
STATIC_ROPES = frozenset({"default", "linear", "yarn", "llama3", "proportional"})
GROWING_ROPES = frozenset({"dynamic", "longrope"})


def check_layers(model: PreTrainedModel, *, context_length: int) -> None:
    """Looks at what the configuration says of each layer. Raises ModelLoadError."""
    config = model.config.get_text_config(decoder=True)
    if getattr(model.config, "is_encoder_decoder", False):
        raise ModelLoadError(
            f"a model of type {config.model_type} decodes from an encoder's output"
        )
    for index, kind in enumerate(getattr(config, "layer_types", None) or ()):
        if kind not in LAYER_KINDS:
            raise ModelLoadError(f"layer {index} cannot be rolled back: {kind}")
    try:
        layers = DynamicCache(config=config).layers
    except Exception as error:
        raise ModelLoadError(
            f"layer 0: a model of type {config.model_type} keeps no cache that can be rolled back"
        ) from error
    for index, layer in enumerate(layers):
        if type(layer) not in CACHE_KINDS:
            raise ModelLoadError(f"layer {index} cannot be rolled back: {type(layer).__name__}")
    _check_rope(config, context_length)


def _check_rope(config: Any, context_length: int) -> None:
    parameters = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    for rope in nested or [parameters]:
        kind = rope.get("rope_type") or "default"
        if kind in STATIC_ROPES:
            continue
        if kind not in GROWING_ROPES:
            raise ModelLoadError(f"rope of type {kind} is not known to stay as it is")
        edge = rope.get("original_max_position_embeddings") or getattr(
            config, "original_max_position_embeddings", config.max_position_embeddings
        )
        if context_length > edge:
            raise ModelLoadError(
                f"rope of type {kind}: keys depend on the length reached beyond "
                f"{edge} tokens and cannot be rolled back; a context length up to {edge} works"
            )
