"""A compiled model gives what it gives uncompiled, and compiles nothing once it serves."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from outrider.engine.compiled_network import CompiledNetwork
from outrider.engine.compiled_shapes import AnyShape, BatchShape, CompiledShapes, PowersOfTwo
from outrider.engine.compiler import CACHE_VARIABLE, ON_CUDA, Compiler
from outrider.engine.loading import ModelLoadError
from outrider.engine.model import Chunk
from outrider.engine.transformers_model import TransformersModel
from outrider.testing.tiny_families import FAMILIES, tiny_family
from outrider.testing.tiny_models import tiny_llama, tiny_model

TRACED = Compiler(backend="aot_eager")
"""Everything but making machine code, which takes longer than all the rest."""
SHORT = PowersOfTwo(most_tokens=16, few=4)

making_code = pytest.mark.filterwarnings(
    # torch's own, when it first looks for a compiler.
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"
)


def family(name: str) -> TransformersModel:
    return TransformersModel(tiny_family(name))


def cut_head() -> TransformersModel:
    ids = torch.tensor([1, 2, 5, 40, 41, 90])
    return TransformersModel(tiny_llama(seed=4), draft_vocabulary=ids)


def history(model: TransformersModel, *, seed: int, steps: int = 25) -> list[torch.Tensor]:
    """Rows of batches of up to four sequences that are extended and rolled back."""
    draw = random.Random(seed)
    sequences = [model.new_sequence() for _ in range(4)]
    answers: list[torch.Tensor] = []
    for _ in range(steps):
        chunks = []
        for sequence in draw.sample(sequences, draw.randint(1, len(sequences))):
            count = draw.choice([1, 1, 2, 3, 5, 16, 17])
            if len(sequence.prefix) + count > model.context_length:
                sequence.rollback(0)
            sequence.rollback(max(0, len(sequence.prefix) - draw.choice([0, 0, 1, 4])))
            token_ids = [draw.randrange(90) for _ in range(count)]
            chunks.append(Chunk(sequence, token_ids, draw.randint(0, count)))
        answers += model.forward(chunks)
    return answers


def worst_error(compiled: Sequence[torch.Tensor], eager: Sequence[torch.Tensor]) -> float:
    """As a share of the logits' spread."""
    found, expected = torch.cat(list(compiled)), torch.cat(list(eager))
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.std())


@pytest.fixture
def code_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda: family("llama"), AnyShape()),
        (cut_head, SHORT),
    ],
    ids=["llama", "cut_head"],
)
def test_compiled_is_eager(make: Callable[[], TransformersModel], shapes: CompiledShapes) -> None:
    compiled, eager = make(), make()
    steps: list[str] = []
    compiled.compile(steps.append, shapes=shapes, compiler=TRACED)
    assert steps[0] == f"compiling 1 of {len(shapes.warm)} shapes"
    assert len(steps) == len(shapes.warm)
    assert compiled.pool.in_use == 0
    graphs = counters["stats"]["unique_graphs"]
    assert worst_error(history(compiled, seed=1), history(eager, seed=1)) < 1e-9
    assert counters["stats"]["unique_graphs"] == graphs, "nothing was compiled meanwhile"


def test_other_threads_run_what_one_has_compiled() -> None:
    model = tiny_model()
    model.compile(compiler=TRACED)
    graphs = counters["stats"]["unique_graphs"]
    answers: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: answers.extend(history(model, seed=2)))
    thread.start()
    thread.join()
    assert worst_error(answers, history(tiny_model(), seed=2)) < 1e-9
    assert counters["stats"]["unique_graphs"] == graphs
    assert not refused(model)


def test_two_models_of_one_kind_are_compiled_each() -> None:
    models = [tiny_model(seed=seed) for seed in (1, 2)]
    for model in models:
        model.compile(compiler=TRACED)
    for seed, model in zip((1, 2), models, strict=True):
        assert worst_error(history(model, seed=3), history(tiny_model(seed=seed), seed=3)) < 1e-9
        assert not refused(model)


def test_what_the_graph_refuses_runs_as_it_is() -> None:
    model = tiny_model()
    model.compile(compiler=TRACED)
    graphs = counters["stats"]["unique_graphs"]
    torch.set_default_dtype(torch.float64)  # A graph holds for the state it was traced in.
    try:
        answers = history(model, seed=2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert refused(model)
    assert worst_error(answers, history(tiny_model(), seed=2)) < 1e-5
    assert counters["stats"]["unique_graphs"] == graphs
    assert worst_error(history(model, seed=2), history(tiny_model(), seed=2)) < 1e-9


def test_a_batch_beyond_all_shapes_runs_as_it_is() -> None:
    model = tiny_model()
    model.compile(compiler=TRACED, shapes=PowersOfTwo(most_tokens=4, few=2))
    rows, expected = (
        each.forward([Chunk(each.new_sequence(), range(9), 9)]) for each in (model, tiny_model())
    )
    assert worst_error(rows, expected) == 0.0


def test_a_model_that_cannot_be_one_graph_is_refused() -> None:
    model = family("mixtral")
    with pytest.raises(ModelLoadError, match=r"type mixtral cannot be .*OUTRIDER_COMPILE=false"):
        model.compile(compiler=TRACED)
    assert model.pool.in_use == 0
    assert worst_error(history(model, seed=1), history(family("mixtral"), seed=1)) == 0.0


def test_a_graph_that_gives_something_else_is_refused() -> None:
    def wrong(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *arguments: tuple(1.1 * rows for rows in graph(*arguments))

    with pytest.raises(ModelLoadError, match="gives something else when it is compiled"):
        tiny_model().compile(compiler=Compiler(backend=wrong))


@making_code
def test_a_machine_without_a_compiler_is_told_which_setting_asks_for_one(code_folder: Path) -> None:
    without = Compiler(options={"cpp.cxx": ("no-such-compiler",)})
    with pytest.raises(ModelLoadError, match=r"compiler.*OUTRIDER_COMPILE=false runs it as it is"):
        tiny_model().compile(compiler=without)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_is_compiled_or_refused(name: str) -> None:
    compiled, eager = family(name), family(name)
    if name in ("mixtral", "qwen3_moe", "gpt_oss"):
        with pytest.raises(ModelLoadError, match="cannot be compiled here"):
            compiled.compile(compiler=TRACED)
        return
    compiled.compile(compiler=TRACED, shapes=SHORT)
    assert worst_error(history(compiled, seed=1), history(eager, seed=1)) < 1e-9
    # Its graph does not hold for single tokens.
    assert refused(compiled) == ({BatchShape(1, 1)} if name == "llama4" else set())


@making_code
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_machine_code_is_eager(dtype: torch.dtype, code_folder: Path) -> None:
    compiled = tiny_model(dtype=dtype)
    compiled.compile()
    graphs = counters["stats"]["unique_graphs"]
    answers, expected = history(compiled, seed=1), history(tiny_model(dtype=dtype), seed=1)
    # Rope is counted in float32 whatever the model runs in.
    assert worst_error(answers, expected) < 1e-4
    assert counters["stats"]["unique_graphs"] == graphs
    assert not refused(compiled)
    assert list(code_folder.rglob("*.so")), "code is kept where it was told to be"


@making_code
@pytest.mark.slow
@pytest.mark.skipif(not torch._C.has_mkl, reason="needs kernels for packed weights")
def test_weights_are_packed_for_the_processor(code_folder: Path) -> None:
    before = counters["inductor"]["mkldnn_linear_weight_pack_matcher_count"]
    tiny_model(dtype=torch.float32).compile()
    linear_layers = 2 * 7 + 1
    after = counters["inductor"]["mkldnn_linear_weight_pack_matcher_count"]
    assert after - before == linear_layers


@making_code
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_no_cuda_graph_is_skipped(code_folder: Path) -> None:
    compiled, eager = (
        TransformersModel(tiny_llama(seed=1, dtype=torch.bfloat16).to("cuda")) for _ in range(2)
    )
    compiled.compile(compiler=ON_CUDA)
    graphs = counters["stats"]["unique_graphs"]
    assert worst_error(history(compiled, seed=1), history(eager, seed=1)) < 0.25
    assert counters["inductor"]["cudagraph_skips"] == 0
    assert counters["stats"]["unique_graphs"] == graphs
    assert not refused(compiled)


def refused(model: TransformersModel) -> set[BatchShape]:
    """Shapes that the graph was asked for and does not hold for."""
    network = model._network
    assert isinstance(network, CompiledNetwork)
    return network._refused
