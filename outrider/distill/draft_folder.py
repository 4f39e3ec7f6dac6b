"""The folder that a finished draft is put into: every worker loads it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from outrider.distill.corpus import put_tensors
from outrider.distill.errors import DistillError
from outrider.distill.folders import PROBE, check_writable
from outrider.distill.student import Student
from outrider.engine.draft_vocabulary import FILE as VOCABULARY_FILE
from outrider.engine.draft_vocabulary import save_draft_vocabulary

WEIGHTS = "model.safetensors"
TOKENIZER_PATTERNS = (
    "tokenizer*",
    "special_tokens_map.json",
    "chat_template*",
    "vocab*",
    "merges*",
)
OWN_FILES = {"config.json", WEIGHTS, VOCABULARY_FILE, "README.md", "generation_config.json"}
MAKING = ".making"
"""Where the files are made. One that is there is what a run left that was killed meanwhile."""


def check_out(folder: Path) -> None:
    """Raises DistillError where a draft's folder cannot be made."""
    if folder.exists() and not folder.is_dir():
        raise DistillError(f"{folder}: is a file; --out names a folder")
    strange = [
        path.name
        for path in (folder.iterdir() if folder.is_dir() else ())
        if not _is_own(path) and path.name not in (MAKING, PROBE)
    ]
    if strange:
        raise DistillError(
            f"{folder}: holds {min(strange)}, which is no draft's: name a new folder"
        )
    if (folder / WEIGHTS).exists() and not (folder / VOCABULARY_FILE).exists():
        raise DistillError(f"{folder}: holds a model that is no draft made here: name a new folder")
    check_writable(folder)


def write_draft(
    folder: Path, student: Student, *, target: Path, numbers: torch.dtype, card: str
) -> None:
    """Writes the network in those numbers, its vocabulary, the target's tokenizer and a card.

    What was there stays until all of it is on disk, and no kill leaves a mixture of both: at worst
    there are no weights, until this is done again. Raises DistillError.
    """
    weights = {
        name: value.detach().to("cpu", numbers).contiguous()
        for name, value in student.model.state_dict().items()
    }
    if student.model.config.tie_word_embeddings:
        tied = getattr(student.model, "_tied_weights_keys", None) or ()
        weights = {name: value for name, value in weights.items() if name not in set(tied)}
    config = json.loads(student.model.config.to_json_string(use_diff=False))
    config["dtype"] = str(numbers).removeprefix("torch.")
    config.pop("_name_or_path", None)
    making = folder / MAKING
    try:
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        save_draft_vocabulary(student.token_ids.cpu(), making)
        (making / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        for pattern in (*TOKENIZER_PATTERNS, "generation_config.json"):
            for path in target.glob(pattern):
                shutil.copyfile(path, making / path.name)
        (making / "README.md").write_text(card, encoding="utf-8")
        put_tensors(making / WEIGHTS, weights, {"format": "pt"})
        _put_in_place(making, folder)
    except OSError as error:
        raise DistillError(f"{folder}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _is_own(path: Path) -> bool:
    """Whether it is of a kind that a draft's folder has."""
    patterns = (path.match(pattern) for pattern in TOKENIZER_PATTERNS)
    return path.name in OWN_FILES or any(patterns)


def _put_in_place(making: Path, folder: Path) -> None:
    """Weights go first and come last: between them the folder is no model."""
    (folder / WEIGHTS).unlink(missing_ok=True)
    for old in folder.iterdir():
        if _is_own(old):
            old.unlink()
    new = sorted(making.iterdir(), key=lambda path: path.name == WEIGHTS)
    for path in new:
        path.replace(folder / path.name)
