"""Loads a model by name and checks that the engine can serve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from outrider.engine.attention_check import check_attention
from outrider.engine.block_pool import BLOCK_SIZE
from outrider.engine.context_length import context_length_of
from outrider.engine.device_memory import kv_pool_bytes
from outrider.engine.draft_head import check_head
from outrider.engine.draft_vocabulary import read_draft_vocabulary
from outrider.engine.file_digest import digest_files
from outrider.engine.gguf_file import read_gguf_model
from outrider.engine.kv_layout_probe import probe_kv_layout
from outrider.engine.kv_pool import KvLayout, KvPool
from outrider.engine.layer_check import check_layers
from outrider.engine.load_error import ModelLoadError
from outrider.engine.model_files import ModelFiles, find_model_files
from outrider.engine.number_type import choose_device, choose_number_type, number_type_name
from outrider.engine.role import Role
from outrider.engine.special_ids import bos_token_id, eos_token_ids, tokenizer_size
from outrider.engine.threads import configure_threads
from outrider.engine.transformers_model import TransformersModel
from outrider.memory_budget import MemoryBudget

__all__ = ["LoadedModel", "ModelLoadError", "load_model", "load_network"]


AUTO = MemoryBudget()


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready, and what there is to say about it.

    `folder` has the tokenizer's files. `weights_digest`: SHA-256 over weights, dtype and
    quantisation, in hexadecimal.
    """

    model: TransformersModel
    name: str
    folder: Path
    weights_digest: str
    eos_token_ids: tuple[int, ...]
    bos_token_id: int | None
    dtype: str
    device: str


def load_model(
    name: str,
    *,
    role: Role,
    cache_dir: Path,
    dtype: str = "auto",
    device: str = "auto",
    threads: int = 0,
    context_length: int = 0,
    kv_memory: MemoryBudget = AUTO,
    block_size: int = BLOCK_SIZE,
    progress: Callable[[str], None] = lambda step: None,
) -> LoadedModel:
    """Loads `embedded`, a folder with safetensors, a .gguf file or a hub id.

    `dtype`: float64, float32, bfloat16, float16 or auto. `device`: auto, cpu, cuda:N. `threads`
    and `context_length`: 0 leaves the default; a context is never longer than the KV pool, which
    takes `kv_memory` in blocks of `block_size` tokens. A draft's folder may bring
    `draft_vocabulary.safetensors`, the ids its head is cut to. Code from a model is never run.
    Raises ModelLoadError, which names the path or the layer, and the cause.
    """
    transformers_logging.disable_progress_bar()
    configure_threads(threads)
    place = choose_device(device)
    numbers = choose_number_type(dtype, place)
    files = find_model_files(name, role=role, cache_dir=cache_dir.expanduser(), progress=progress)
    progress("loading weights")
    loaded = _read(files, numbers)
    length = context_length_of(loaded.config, wanted=context_length, name=name)
    check_layers(loaded, context_length=length)
    try:
        loaded = loaded.to(place)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ModelLoadError(f"{name} does not fit on {place}: {reason}") from error
    rows = loaded.get_output_embeddings().weight.shape[0]
    vocabulary_size = min(tokenizer_size(files.folder) or rows, rows)
    progress("checking that its state can be rolled back and shared")
    layout = probe_kv_layout(loaded, block_size=block_size)
    check_attention(loaded, layout=layout, context_length=length)
    draft_vocabulary = None
    if role == "draft":
        draft_vocabulary = _draft_vocabulary(loaded, files.folder, vocabulary_size)
    model = TransformersModel(
        loaded,
        vocabulary_size=vocabulary_size,
        context_length=length,
        draft_vocabulary=draft_vocabulary,
        kv=_kv_pool(loaded, layout, kv_memory, context_length=length),
    )
    return LoadedModel(
        model=model,
        name=name,
        folder=files.folder,
        weights_digest=digest_files([], files.weights_digest, number_type_name(numbers)),
        eos_token_ids=tuple(
            token_id
            for token_id in eos_token_ids(loaded, files.folder)
            if token_id < vocabulary_size
        ),
        bos_token_id=bos_token_id(loaded),
        dtype=number_type_name(numbers),
        device=str(place),
    )


def load_network(
    name: str, *, cache_dir: Path, progress: Callable[[str], None] = lambda step: None
) -> PreTrainedModel:
    """A target's network as transformers has it, in float32. Raises ModelLoadError."""
    files = find_model_files(
        name, role="target", cache_dir=cache_dir.expanduser(), progress=progress
    )
    return _read(files, torch.float32)


def _read(files: ModelFiles, numbers: torch.dtype) -> PreTrainedModel:
    if files.gguf is not None:
        return read_gguf_model(files.gguf, numbers)
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            files.folder,
            dtype=numbers,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except Exception as error:
        raise ModelLoadError(f"{files.folder}: {type(error).__name__}: {error}") from error
    # transformers fills what is missing or misshapen with random numbers.
    if info["missing_keys"]:
        raise ModelLoadError(f"{files.folder}: the weights lack {min(info['missing_keys'])}")
    if info["mismatched_keys"]:
        name, found, expected = min(info["mismatched_keys"], key=str)
        raise ModelLoadError(
            f"{files.folder}: the weight {name} has shape {tuple(found)}, "
            f"the configuration asks for {tuple(expected)}"
        )
    loaded: PreTrainedModel = model.eval()
    return loaded


def _kv_pool(
    model: PreTrainedModel, layout: KvLayout, budget: MemoryBudget, *, context_length: int
) -> KvPool:
    size = kv_pool_bytes(
        budget,
        device=layout.device,
        weights_bytes=sum(weight.nbytes for weight in model.parameters()),
        context_bytes=layout.blocks_for(context_length) * layout.block_bytes,
    )
    blocks = layout.blocks_within(size)
    if blocks < 1:
        raise ModelLoadError(
            f"no room for KV state: {size} bytes, and one block takes {layout.block_bytes}"
        )
    try:
        return KvPool(layout, blocks=blocks)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ModelLoadError(f"no room for KV state of {size} bytes: {reason}") from error


def _draft_vocabulary(
    model: PreTrainedModel, folder: Path, vocabulary_size: int
) -> torch.Tensor | None:
    """The ids that the folder names for its head, if any, once the head is seen to allow it."""
    token_ids = read_draft_vocabulary(folder, vocabulary_size=vocabulary_size)
    if token_ids is None:
        return None
    token_ids = token_ids.to(model.device)
    try:
        check_head(model, token_ids)
    except ValueError as error:
        raise ModelLoadError(f"{folder}: {error}") from error
    return token_ids
