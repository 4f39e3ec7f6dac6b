"""How many ids a sequence of a model may have."""

from __future__ import annotations

from transformers import PreTrainedConfig

from outrider.engine.load_error import ModelLoadError


def context_length_of(config: PreTrainedConfig, *, wanted: int, name: str) -> int:
    """As many as are `wanted`, or as the model `name` can where that is 0.

    Raises ModelLoadError for more than that, and where nobody says how many it can.
    """
    most = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    if not isinstance(most, int):
        if wanted:
            return wanted
        raise ModelLoadError(f"{name}: its configuration names no context length; set one")
    if wanted > most:
        raise ModelLoadError(f"{name}: a context length of {wanted} is beyond the model's {most}")
    return wanted or most
