"""Larger targets of random weights: time depends on shapes alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.subject import CACHE, EMBEDDED
from outrider.engine.assembled import assembled_folder

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
CONTEXT_LENGTH = 8192
SHAPES = {
    "1b": {"layers": 16, "hidden": 2048, "intermediate": 8192, "heads": 32, "kv_heads": 8},
    "3b": {"layers": 28, "hidden": 3072, "intermediate": 8192, "heads": 24, "kv_heads": 8},
    "8b": {"layers": 32, "hidden": 4096, "intermediate": 14336, "heads": 32, "kv_heads": 8},
}


def llama_config(size: str, *, vocabulary_size: int) -> LlamaConfig:
    """The shape of a well-known Llama."""
    shape = SHAPES[size]
    return LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=shape["hidden"],
        intermediate_size=shape["intermediate"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=False,
    )


def random_llama_folder(size: str, *, device: str) -> Path:
    """A model folder in bfloat16 with the embedded target's tokenizer, made once on `device`."""
    tokenizer = EMBEDDED.folder

    def make(folder: Path) -> None:
        vocabulary_size = LlamaConfig.from_pretrained(tokenizer).vocab_size
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device(device):
                model = LlamaForCausalLM(llama_config(size, vocabulary_size=vocabulary_size))
        finally:
            torch.set_default_dtype(before)
        model.save_pretrained(folder)
        for name in TOKENIZER_FILES:
            shutil.copy(tokenizer / name, folder / name)

    return assembled_folder(CACHE, f"random-llama-{size}", make)
