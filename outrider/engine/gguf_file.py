"""Reads a GGUF file through transformers: weights, configuration and tokenizer.

`from_pretrained(gguf_file=…)` is not used, since it demands one more package for what is a plain
copy of the dequantised weights here.
"""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from outrider.engine.load_error import ModelLoadError


def read_gguf_model(path: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The dequantised model on the CPU. Raises ModelLoadError."""
    try:
        config = AutoConfig.from_pretrained(
            path.parent, gguf_file=path.name, trust_remote_code=False
        )
        with torch.device("meta"):
            names = AutoModelForCausalLM.from_config(config)
        read = load_gguf_checkpoint(
            str(path), return_tensors=True, model_to_load=names, torch_dtype=dtype
        )
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
        missing, unexpected = model.load_state_dict(read["tensors"], strict=False)
    except Exception as error:
        raise ModelLoadError(f"{path}: {type(error).__name__}: {error}") from error
    model.tie_weights()
    missing = set(missing) - set(model.all_tied_weights_keys)
    if missing or unexpected:
        strange = sorted(missing) or sorted(unexpected)
        raise ModelLoadError(f"{path}: its weights do not fit its configuration, see {strange[0]}")
    return model.eval()


def save_gguf_tokenizer(path: Path, folder: Path) -> None:
    """Writes the tokenizer's files of a GGUF file into a folder. Raises ModelLoadError."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            path.parent, gguf_file=path.name, trust_remote_code=False
        )
        tokenizer.save_pretrained(folder)
    except Exception as error:
        raise ModelLoadError(f"{path}: no tokenizer: {type(error).__name__}: {error}") from error
