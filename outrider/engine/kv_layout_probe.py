"""Finds out what each layer of a model keeps of a token, by showing it one."""

from __future__ import annotations

import torch
from transformers import DynamicCache, PreTrainedModel

from outrider.engine.attention_interface import use_own_attention
from outrider.engine.block_pool import BLOCK_SIZE
from outrider.engine.kv_pool import KvLayout, LayerShape
from outrider.engine.load_error import ModelLoadError


@torch.inference_mode()
def probe_kv_layout(model: PreTrainedModel, *, block_size: int = BLOCK_SIZE) -> KvLayout:
    """The layout of the model's KV state. Raises ModelLoadError, which names the layer.

    Shapes in configurations are named in a dozen ways; a cache has them all alike.
    """
    use_own_attention(model)
    # Without a configuration every layer of a cache keeps all it is given.
    cache = DynamicCache()
    try:
        token_ids = torch.tensor([[1]], device=model.device)
        model.base_model(token_ids, cache=cache, use_cache=True)
    except Exception as error:
        raise ModelLoadError(
            f"layer 0: a model of type {model.config.model_type} keeps no keys and values: {error}"
        ) from error
    layers: list[LayerShape] = []
    dtype = model.dtype
    for index, layer in enumerate(cache.layers):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is None or values is None or keys.shape[:3] != values.shape[:3]:
            raise ModelLoadError(f"layer {index} keeps no keys and values for each token")
        dtype = keys.dtype
        layers.append(LayerShape(keys.shape[1], keys.shape[3], values.shape[3]))
    if not layers:
        raise ModelLoadError("layer 0 keeps no keys and values")
    return KvLayout(layers=tuple(layers), block_size=block_size, dtype=dtype, device=model.device)
