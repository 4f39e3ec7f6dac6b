"""Finds the files of a model by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import snapshot_download

from outrider.engine.assembled import assembled_folder
from outrider.engine.embedded import embedded_folder, embedded_target_file
from outrider.engine.file_digest import digest_files
from outrider.engine.gguf_file import save_gguf_tokenizer
from outrider.engine.load_error import ModelLoadError
from outrider.engine.role import Role

EMBEDDED = "embedded"
GGUF_SUFFIX = ".gguf"
WEIGHTS = "*.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
TEXT_PATTERNS = ("*.json", "*.jinja", "*.txt", "tokenizer.model")
HUB_PATTERNS = (*TEXT_PATTERNS, WEIGHTS)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """`folder`: configuration, tokenizer and, unless there is a `gguf` file, safetensors.

    `weights_digest`: SHA-256 over the weights and what else decides their meaning.
    """

    folder: Path
    weights_digest: str
    gguf: Path | None = None


@dataclass(frozen=True, slots=True)
class TextFiles:
    """`folder`: tokenizer and, unless there is a `gguf` file, configuration."""

    folder: Path
    gguf: Path | None = None


def find_model_files(
    name: str, *, role: Role, cache_dir: Path, progress: Callable[[str], None]
) -> ModelFiles:
    """The files of `embedded`, a .gguf file, a folder or a hub id. Raises ModelLoadError."""
    if name == EMBEDDED:
        pair = embedded_folder(cache_dir, progress)
        return ModelFiles(pair / role, digest_files([], pair.name, role))
    path = Path(name).expanduser()
    if path.suffix == GGUF_SUFFIX:
        return _gguf_files(path, cache_dir, progress)
    if path.is_dir():
        return _folder_files(path, progress)
    _check_hub_id(name, path)
    progress(f"fetching {name} from the hub")
    return _folder_files(_fetch(name, HUB_PATTERNS), progress)


def find_text_files(name: str, *, cache_dir: Path) -> TextFiles:
    """As `find_model_files`, without weights. `embedded`: those of its target."""
    path = embedded_target_file() if name == EMBEDDED else Path(name).expanduser()
    if path.suffix == GGUF_SUFFIX:
        return TextFiles(_gguf_tokenizer(path, _gguf_digest(path), cache_dir), gguf=path)
    if not path.is_dir():
        _check_hub_id(name, path)
        path = _fetch(name, TEXT_PATTERNS)
    _check_config(path)
    return TextFiles(path)


def _check_hub_id(name: str, path: Path) -> None:
    if path.exists():
        raise ModelLoadError(f"{path}: must be a folder with safetensors or a .gguf file")
    if not _may_be_hub_id(name):
        raise ModelLoadError(f"{path}: no such folder")


def _check_config(folder: Path) -> Path:
    config = folder / "config.json"
    if not config.is_file():
        raise ModelLoadError(f"{folder}: no config.json in this folder")
    return config


def _gguf_files(path: Path, cache_dir: Path, progress: Callable[[str], None]) -> ModelFiles:
    progress(f"reading {path.name}")
    digest = _gguf_digest(path)
    return ModelFiles(_gguf_tokenizer(path, digest, cache_dir), digest, gguf=path)


def _gguf_digest(path: Path) -> str:
    if not path.is_file():
        raise ModelLoadError(f"{path}: no such file")
    return digest_files([path])


def _gguf_tokenizer(path: Path, digest: str, cache_dir: Path) -> Path:
    return assembled_folder(
        cache_dir, f"tokenizer-{digest[:32]}", lambda empty: save_gguf_tokenizer(path, empty)
    )


def _folder_files(folder: Path, progress: Callable[[str], None]) -> ModelFiles:
    config = _check_config(folder)
    weights = sorted(folder.glob(WEIGHTS))
    if not weights:
        raise ModelLoadError(
            f"{folder}: no weights in this folder; {WEIGHTS} are looked for{_pickles(folder)}"
        )
    _check_index(folder, {path.name for path in weights})
    if (folder / ADAPTER).exists():
        raise ModelLoadError(f"{folder}: {ADAPTER} asks for an adapter; merge it into the weights")
    progress(f"reading {sum(path.stat().st_size for path in weights) / 1e9:.1f} GB of weights")
    return ModelFiles(folder, digest_files([config, *weights]))


def _pickles(folder: Path) -> str:
    """A word on weights that are there and never read: unpickling can run any code."""
    found = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    return f", and {found[0]} is a pickle, which is never read" if found else ""


def _check_index(folder: Path, weights: set[str]) -> None:
    """Raises ModelLoadError when the index names files that the digest does not cover."""
    path = folder / INDEX
    if not path.is_file():
        return
    try:
        named = set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ModelLoadError(f"{path}: not an index of weights") from None
    if strangers := named - weights:
        raise ModelLoadError(f"{path}: names {min(strangers, key=str)}, none of {WEIGHTS} here")


def _may_be_hub_id(name: str) -> bool:
    return name.count("/") <= 1 and not name.startswith((".", "/", "~"))


def _fetch(name: str, patterns: Sequence[str]) -> Path:
    try:
        # Files in subfolders are other formats of the same weights.
        folder = snapshot_download(name, allow_patterns=list(patterns), ignore_patterns=["*/*"])
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise ModelLoadError(
            f"{name}: no such folder, and the hub gives no such model: "
            f"{type(error).__name__}: {reason}"
        ) from error
    return Path(folder)
