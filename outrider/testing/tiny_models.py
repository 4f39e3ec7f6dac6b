"""Random models small enough for every test, the same on every machine and run."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvPool
from outrider.engine.transformers_model import TransformersModel
from outrider.testing.tiny_tokenizer import (
    BOS_TOKEN_ID,
    EOS_TOKEN_ID,
    save_tiny_tokenizer,
    tiny_tokenizer,
)

TARGET_SEED = 11
DRAFT_SEED = 12


def tiny_llama(
    *,
    seed: int,
    vocabulary_size: int = 128,
    context_length: int = 512,
    dtype: torch.dtype = torch.float64,
) -> LlamaForCausalLM:
    """A random Llama: 2 layers, hidden 64, 4 heads over 2 key-value heads.

    Its weights are drawn in float32, so that all dtypes have the same ones up to rounding, and
    wide enough that its choices depend on the whole prefix.
    """
    config = LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context_length,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=BOS_TOKEN_ID,
        eos_token_id=EOS_TOKEN_ID,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    converted: LlamaForCausalLM = model.to(dtype).eval()
    return converted


def tiny_model(
    *,
    seed: int = TARGET_SEED,
    vocabulary_size: int = 128,
    context_length: int = 512,
    dtype: torch.dtype = torch.float64,
    blocks: int | None = None,
) -> TransformersModel:
    """A tiny Llama behind the engine's seam. `blocks`: of its KV pool; None means enough."""
    model = tiny_llama(
        seed=seed, vocabulary_size=vocabulary_size, context_length=context_length, dtype=dtype
    )
    kv = None if blocks is None else KvPool(probe_kv_layout(model), blocks=blocks)
    return TransformersModel(model, kv=kv)


def tiny_pair(
    dtype: torch.dtype = torch.float64, *, vocabulary_size: int = 128, context_length: int = 512
) -> tuple[TransformersModel, TransformersModel]:
    """A target and a draft that have nothing in common."""
    target, draft = (
        tiny_model(
            seed=seed, vocabulary_size=vocabulary_size, context_length=context_length, dtype=dtype
        )
        for seed in (TARGET_SEED, DRAFT_SEED)
    )
    return target, draft


def save_tiny(
    folder: Path,
    *,
    seed: int = TARGET_SEED,
    padding: int = 0,
    context_length: int = 512,
    noise: float = 0.0,
) -> Path:
    """Writes a tiny model in float32, with its tokenizer, that `load_model` loads; the folder.

    `padding`: rows of embedding and head beyond the tokenizer's ids. `noise`: how far each weight
    is moved, as a share of itself: a draft that is right now and then.
    """
    model = tiny_llama(
        seed=seed,
        vocabulary_size=tiny_tokenizer().get_vocab_size() + padding,
        context_length=context_length,
        dtype=torch.float32,
    )
    if noise:
        shift = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1.0 + noise * torch.randn(weight.shape, generator=shift))
    model.save_pretrained(folder)
    save_tiny_tokenizer(folder)
    return folder
