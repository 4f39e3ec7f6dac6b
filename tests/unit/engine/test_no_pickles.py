"""Weights come from safetensors and GGUF alone: no file of a model can run code."""

from __future__ import annotations

import ast
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from outrider.engine import model_files
from outrider.engine.loading import ModelLoadError, load_model
from outrider.testing.tiny_models import save_tiny

ROOT = Path(__file__).parents[3]
PRIVATE_PIPE = "outrider/worker/engine_frames.py"
"""Between a worker and its own child, on a socket that nobody else has."""


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._trace,)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny(tmp_path / "model")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "code-was-run"


def load(name: Path, **options: Any) -> None:
    load_model(
        str(name),
        **{"role": "target", "cache_dir": name.parent / "cache", "dtype": "float32"} | options,
    )


def trap(path: Path, trace: Path) -> None:
    with path.open("wb") as file:
        pickle.dump(Trap(trace), file)


def test_the_trap_works(tmp_path: Path, trace: Path) -> None:
    trap(tmp_path / "x.bin", trace)
    pickle.loads((tmp_path / "x.bin").read_bytes())
    assert trace.exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_a_folder_of_pickles_is_refused_by_name(folder: Path, trace: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    trap(folder / name, trace)
    with pytest.raises(ModelLoadError, match=rf"{name} is a pickle, which is never read"):
        load(folder)
    assert not trace.exists()


def test_pickles_beside_the_weights_are_left_alone(folder: Path, trace: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "scheduler.pkl"):
        trap(folder / name, trace)
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"weight_map": {"lm_head.weight": "pytorch_model.bin"}})
    )
    load(folder)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "role"), [("model.safetensors", "target"), ("draft_vocabulary.safetensors", "draft")]
)
def test_a_pickle_under_another_name_is_refused(
    folder: Path, trace: Path, name: str, role: str
) -> None:
    trap(folder / name, trace)
    with pytest.raises(ModelLoadError):
        load(folder, role=role)
    assert not trace.exists()


def test_a_pickle_is_no_gguf_file(tmp_path: Path, trace: Path) -> None:
    trap(tmp_path / "model.gguf", trace)
    with pytest.raises(ModelLoadError, match=r"model\.gguf"):
        load(tmp_path / "model.gguf")
    assert not trace.exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"weight_map": []}', "{}"])
def test_an_index_that_is_none_is_refused(folder: Path, content: str) -> None:
    (folder / model_files.INDEX).write_text(content)
    with pytest.raises(ModelLoadError, match="index"):
        load(folder)


def test_an_index_may_not_lead_out_of_the_digest(folder: Path, tmp_path: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    torch.save({names[0]: weights[names[0]]}, folder / "part.bin")
    (folder / "model.safetensors").rename(folder / "part.safetensors")
    index = dict.fromkeys(names, "part.safetensors")

    def write() -> None:
        whole = {"metadata": {}, "weight_map": index}
        (folder / model_files.INDEX).write_text(json.dumps(whole))

    write()
    load(folder)
    for stranger in ("part.bin", "../elsewhere.safetensors", "/tmp/x.safetensors", 7):
        index[names[0]] = stranger  # type: ignore[assignment]
        write()
        with pytest.raises(ModelLoadError, match="none of"):
            load(folder)


def test_an_adapter_is_refused(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelLoadError, match="adapter"):
        load(folder)


def test_the_hub_is_asked_for_no_pickle_and_no_code() -> None:
    assert set(model_files.HUB_PATTERNS) == {
        "*.json",
        "*.safetensors",
        "*.jinja",
        "*.txt",
        "tokenizer.model",
    }


def test_no_module_can_unpickle_what_comes_from_outside() -> None:
    for package in ("outrider", "coordinator", "draft_service", "target_service"):
        for path in (ROOT / package).rglob("*.py"):
            place = str(path.relative_to(ROOT))
            if place == PRIVATE_PIPE:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = [name.name for name in node.names]
                    names.append(getattr(node, "module", None) or "")
                    assert not {"pickle", "dill", "joblib", "shelve", "marshal"} & set(names), place
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    assert (node.value.id, node.attr) != ("torch", "load"), place
                if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
                    assert ast.unparse(node.value) == "False", place
