"""Where transformers' models reach the engine's attention: its public registries."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from outrider.engine.load_error import ModelLoadError
from outrider.engine.mask_rule import MaskRule, packed_mask
from outrider.engine.packed_cache import PackedCache
from outrider.engine.scoring import Scoring

NAME = "outrider"

WITHOUT_EFFECT = frozenset(
    {
        "position_ids",  # Already in query and key.
        "use_cache",
        "output_router_logits",
    }
)
"""Keywords that models hand on to their attention and that change nothing there."""


def use_packed_attention(model: PreTrainedModel) -> None:
    """Makes a model attend through the engine, in place. Raises ModelLoadError if it cannot."""
    AttentionInterface.register(NAME, packed_attention)
    AttentionMaskInterface.register(NAME, packed_mask)
    _use(model, NAME)
    config = model.config.get_text_config(decoder=True)
    if config._attn_implementation != NAME:
        raise ModelLoadError(
            f"layer 0: the attention of a model of type {config.model_type} cannot be replaced"
        )


def use_own_attention(model: PreTrainedModel) -> None:
    """Makes a model attend as transformers alone does: by `sdpa` where the model supports it."""
    _use(model, "sdpa" if model._supports_sdpa else "eager")


def _use(model: PreTrainedModel, name: str) -> None:
    model.set_attn_implementation(name)
    # Grouped kernels refuse float64, and round a token as the others in its batch have it.
    model.set_experts_implementation("eager")


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attention_mask: MaskRule,
    *,
    packed: PackedCache | None = None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    sliding_window: int | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of packed batches, to be registered with transformers.

    `query`: [1, query heads, T, size]. `keys`, `values`: what `packed`, the model's cache too,
    gave. The answer is [1, T, query heads, size]. Raises ValueError for anything that it would
    have to ignore.
    """
    if packed is None:
        raise ValueError("its layers do not hand on what they are given for their attention")
    unknown = sorted(
        name
        for name, value in others.items()
        if name not in WITHOUT_EFFECT and value is not None and value is not False
    )
    if unknown:
        raise ValueError(f"its attention asks for {', '.join(unknown)}")
    if dropout or is_causal is False:
        raise ValueError("its attention is not causal or drops weights")
    if not isinstance(attention_mask, MaskRule):
        raise ValueError("its attention brings a mask of its own")
    if sliding_window is not None and sliding_window != attention_mask.local_size:
        raise ValueError("its window is not the one of its mask")
    scoring = Scoring(
        rule=attention_mask,
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        window=sliding_window,
        softcap=softcap,
        sinks=s_aux,
    )
    return packed.attend(query, keys, values, scoring), None
