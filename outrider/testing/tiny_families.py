"""Tiny random models of every family that the engine is known to serve, in float64.

Each has three layers, query heads that share key heads where the family allows it, and, where it
has windows, chunks, soft-caps, sinks or experts, ones that matter within a few tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedModel,
)
from transformers.masking_utils import eager_mask

from outrider.engine.transformers_model import TransformersModel

VOCABULARY = 96
CONTEXT = 128
WINDOW = 8

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
}
MIXED_LAYERS = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of model: transformers' name of it, and what its configuration says besides.

    `tolerance`: how far rows may be from those of the model alone.
    """

    model_type: str
    changes: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-9


FAMILIES = {
    "llama": Family("llama"),
    "llama_linear_rope": Family(
        "llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}
    ),
    "llama_yarn": Family(
        "llama",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 1e4,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "llama3_rope": Family(
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "rope_theta": 1e4,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "qwen2": Family("qwen2"),
    "qwen2_window": Family(
        "qwen2", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    ),
    "qwen3": Family("qwen3", {"head_dim": 16}),
    "mistral": Family("mistral", {"sliding_window": None}),
    "mistral_window": Family("mistral", {"sliding_window": WINDOW}),
    "phi": Family("phi"),
    "phi3": Family("phi3"),
    "gpt2": Family("gpt2", {"n_inner": 48}),
    "gpt2_scaled": Family("gpt2", {"n_inner": 48, "scale_attn_by_inverse_layer_idx": True}),
    "gptj": Family("gptj", {"rotary_dim": 4}),
    "gpt_bigcode": Family("gpt_bigcode", {"n_inner": 48}),
    "gpt_bigcode_heads": Family("gpt_bigcode", {"n_inner": 48, "multi_query": False}),
    "opt": Family("opt", {"word_embed_proj_dim": 32, "ffn_dim": 48}),
    "gpt_neox": Family("gpt_neox"),
    "gemma": Family("gemma", {"head_dim": 16}),
    "gemma2": Family("gemma2", {"head_dim": 16, "attn_logit_softcapping": 2.0, **MIXED_LAYERS}),
    "gemma3": Family("gemma3_text", {"head_dim": 16, **MIXED_LAYERS}),
    "mixtral": Family("mixtral", EXPERTS),
    "qwen3_moe": Family("qwen3_moe", {"head_dim": 16, **EXPERTS}),
    "olmo2": Family("olmo2"),
    "olmo3": Family("olmo3", MIXED_LAYERS),
    "cohere": Family("cohere"),
    "cohere2": Family("cohere2", MIXED_LAYERS),
    "granite": Family("granite"),
    "starcoder2": Family("starcoder2"),
    "smollm3": Family("smollm3"),
    "glm4": Family("glm4", {"head_dim": 16}),
    "llama4": Family(
        "llama4_text",
        {
            "head_dim": 16,
            "attention_chunk_size": WINDOW,
            "intermediate_size_mlp": 48,
            "interleave_moe_layer_step": 1,
            "no_rope_layers": [1, 0, 1],
            **EXPERTS,
        },
        # It turns queries and keys in float32, and gives other rows for other lengths alone too.
        tolerance=1e-5,
    ),
    "gpt_oss": Family(
        "gpt_oss",
        {
            "head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            **EXPERTS,
            **MIXED_LAYERS,
        },
    ),
}
"""By name. Some stand for a part of a family that attends in its own way."""


def tiny_family(name: str, *, seed: int = 3, dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    """A model of a family, attending as transformers alone does, to the last digit."""
    return build(FAMILIES[name], seed=seed, dtype=dtype)


def build(family: Family, *, seed: int = 3, dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    """A random model, the same for the same seed."""
    config = AutoConfig.for_model(family.model_type, **{**COMMON, **family.changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        loaded = AutoModelForCausalLM.from_config(config)
    model: PreTrainedModel = loaded.to(dtype).eval()
    model.set_experts_implementation("eager")
    if not model._supports_sdpa:
        AttentionInterface.register("textbook", textbook_attention)
        AttentionMaskInterface.register("textbook", eager_mask)
        model.set_attn_implementation("textbook")
    return model


@torch.inference_mode()
def alone(model: PreTrainedModel, token_ids: list[int]) -> torch.Tensor:
    """The logits [ids, vocabulary] of a model that reads them in one go, without a cache."""
    logits: torch.Tensor = model(torch.tensor([token_ids]), use_cache=False).logits[0]
    return logits


def tiny_family_pair(name: str, *, seed: int = 3) -> tuple[TransformersModel, PreTrainedModel]:
    """A model behind the engine's seam, and one of the same weights for `alone`."""
    return TransformersModel(tiny_family(name, seed=seed)), tiny_family(name, seed=seed)


def textbook_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    *,
    scaling: float,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **unused: Any,
) -> tuple[torch.Tensor, None]:
    """Attention as it is written down, for families that `sdpa` does not know.

    transformers' own `eager` takes the softmax in float32 whatever the model runs in.
    """
    shared = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    scores = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + attention_mask
    if s_aux is not None:
        sinks = s_aux.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    else:
        weights = scores.softmax(-1)
    return (weights @ value).transpose(1, 2), None
