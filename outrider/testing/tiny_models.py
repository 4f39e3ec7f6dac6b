"""Random models small enough for every test, the same on every machine and run."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.engine.transformers_model import TransformersModel

TARGET_SEED = 11
DRAFT_SEED = 12


def tiny_llama(
    *,
    seed: int,
    vocabulary_size: int = 128,
    context_length: int = 512,
    dtype: torch.dtype = torch.float64,
    layers: int = 2,
) -> LlamaForCausalLM:
    """A random Llama: hidden 64, 4 heads over 2 key-value heads, logits with some spread."""
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context_length,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return model.to(dtype).eval()


def tiny_pair(
    dtype: torch.dtype = torch.float64, *, vocabulary_size: int = 128, context_length: int = 512
) -> tuple[TransformersModel, TransformersModel]:
    """A target and a draft that have nothing in common."""
    target, draft = (
        TransformersModel(
            tiny_llama(
                seed=seed,
                vocabulary_size=vocabulary_size,
                context_length=context_length,
                dtype=dtype,
            )
        )
        for seed in (TARGET_SEED, DRAFT_SEED)
    )
    return target, draft
