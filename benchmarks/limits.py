"""What a forward can cost at least: bytes to read, bare matrix products, Python around them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

from benchmarks.corpus import Corpus
from benchmarks.results import Row
from benchmarks.subject import CACHE, EMBEDDED, Subject
from outrider.engine.loading import load_model
from outrider.engine.model import Chunk, Model
from outrider.engine.model import Sequence as State
from outrider.engine.transformers_model import TransformersModel

DTYPES = ("bfloat16", "float32")
CONTEXT = 200
SHAPES = {"decode_1": (1, 1), "verify_1": (1, 5), "verify_8": (8, 5), "decode_64": (64, 1)}
"""Chunks in a forward, and tokens in each."""
DEEP = ((1, 4000),)
"""Generations in a decode step that is compared with the bytes it reads, and their contexts."""
READ_BYTES = 1 << 29
EAGER, COMPILED = "eager", "compiled"
RUNS, WARM_UPS = 10, 2
PREFILL_SLICE = 500


def measure(
    *,
    dtypes: Sequence[str] = DTYPES,
    deep: Sequence[tuple[int, int]] = DEEP,
    networks: Sequence[str] = (EAGER,),
    runs: int = RUNS,
    subject: Subject = EMBEDDED,
) -> Iterator[Row]:
    """Rows of the machine, of the bare products, of the engine's forward, of what is not either.

    `networks`: EAGER, then COMPILED where a decode step is to be measured compiled too.
    """
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(subject.threads)
    bytes_per_s = read_bandwidth(subject.device, runs)
    yield Row(
        subject.row("limit_read_bandwidth"),
        bytes_per_s / 1e9,
        "GB/s",
        runs,
        note=f"sum of {READ_BYTES >> 20} MiB; {subject.device}, {subject.threads} thread",
    )
    for dtype in dtypes:
        yield from _rows(subject.of_dtype(dtype), bytes_per_s, deep, networks, runs)
        print(f"  limits: {dtype}", file=sys.stderr, flush=True)
    yield _python_row(subject, runs)


def read_bandwidth(device: str, runs: int = RUNS) -> float:
    """Bytes per second of reading memory that no cache holds."""
    memory = torch.ones(READ_BYTES // 4, device=device)
    (found,) = in_turns([memory.sum], device, runs)
    return READ_BYTES / median(found)


def in_turns(
    actions: Sequence[Callable[[], object]], device: str, runs: int = RUNS
) -> list[list[float]]:
    """Seconds of each action in each run, one after the other, the device's part included."""
    found: list[list[float]] = [[] for _ in actions]
    for run in range(WARM_UPS + runs):
        for action, times in zip(actions, found, strict=True):
            _synchronise(device)
            since = time.perf_counter()
            action()
            _synchronise(device)
            if run >= WARM_UPS:
                times.append(time.perf_counter() - since)
    return found


@torch.inference_mode()
def _rows(
    subject: Subject,
    bytes_per_s: float,
    deep: Sequence[tuple[int, int]],
    networks: Sequence[str],
    runs: int,
) -> Iterator[Row]:
    products = BareProducts(subject)
    loaded = load_model(
        subject.model,
        role="target",
        cache_dir=CACHE,
        dtype=subject.dtype,
        device=subject.device,
        threads=subject.threads,
    )
    model, corpus = loaded.model, Corpus(subject.folder)
    floor_s = products.weight_bytes / bytes_per_s
    for name, (count, length) in SHAPES.items():
        rows = count * length
        with repeated_step(model, corpus, count=count, length=length, context=CONTEXT) as step:
            bare, whole = in_turns([partial(products.run, rows), step], subject.device, runs)
        rate = products.operations(rows) / median(bare) / 1e9
        yield Row(
            subject.row(f"limit_products_{name}_{subject.dtype}"),
            median(bare) * 1000,
            "ms",
            runs,
            ratio=median(bare) / floor_s,
            against=f"reading the weights, {floor_s * 1000:.1f} ms",
            note=f"all linear layers at {rows} rows, {rate:.0f} GFLOP/s; {subject.note}",
        )
        yield Row(
            subject.row(f"limit_forward_{name}_{subject.dtype}"),
            median(whole) * 1000,
            "ms",
            runs,
            ratio=median(one / other for one, other in zip(whole, bare, strict=True)),
            against=f"its linear layers alone, {median(bare) * 1000:.1f} ms",
            note=f"{count} x {length} tokens after {CONTEXT}; {subject.note}",
        )
    for network in networks:
        tail = subject.dtype
        if network == COMPILED:
            model.compile()
            tail = f"{subject.dtype}_{COMPILED}"
        for count, context in deep:
            # The state that a step reads: keys and values of all ids before it.
            state_bytes = count * context * model.pool.block_bytes / model.pool.block_size
            floor_s = (products.weight_bytes + state_bytes) / bytes_per_s
            with repeated_step(model, corpus, count=count, length=1, context=context) as step:
                (whole,) = in_turns([step], subject.device, runs)
            yield Row(
                subject.row(f"limit_bytes_floor_{count}x{context}_{tail}"),
                median(whole) * 1000,
                "ms",
                runs,
                ratio=median(whole) / floor_s,
                against=f"reading weights and KV state, {floor_s * 1000:.3g} ms",
                note=f"one decode step of {count} after {context} tokens each, {network}; "
                f"{subject.note}",
            )


def _python_row(subject: Subject, runs: int) -> Row:
    """A forward of as many layers with next to nothing in them."""
    with torch.inference_mode():
        model = TransformersModel(_hollow(subject))
        step = _stepper(model, [model.new_sequence()], [[1]])
        (found,) = in_turns([step], subject.device, runs * 5)
    return Row(
        subject.row("limit_python"),
        median(found) * 1000,
        "ms",
        runs * 5,
        note="a decode step of a model with as many layers, 8 wide: Python and dispatch of kernels",
    )


class BareProducts:
    """The linear layers of a model, one after the other, without anything between them."""

    def __init__(self, subject: Subject) -> None:
        model: Any = AutoModelForCausalLM.from_pretrained(
            subject.folder, dtype=subject.numbers, local_files_only=True
        ).to(subject.device)
        self._layers = [one for one in model.modules() if isinstance(one, torch.nn.Linear)]
        self._inputs: dict[tuple[int, int], torch.Tensor] = {}

    @property
    def weight_bytes(self) -> int:
        """Of all of them."""
        return sum(layer.weight.nbytes for layer in self._layers)

    def operations(self, rows: int) -> int:
        """Multiplications and additions."""
        return 2 * rows * sum(layer.weight.numel() for layer in self._layers)

    def run(self, rows: int) -> None:
        """Multiplies `rows` rows by each."""
        for layer in self._layers:
            key = rows, layer.in_features
            if key not in self._inputs:
                weight = layer.weight
                self._inputs[key] = torch.ones(key, dtype=weight.dtype, device=weight.device)
            layer(self._inputs[key])


@contextmanager
def repeated_step(
    model: Model, corpus: Corpus, *, count: int, length: int, context: int
) -> Iterator[Callable[[], None]]:
    """A forward over `count` chunks of `length` tokens, each after `context`."""
    states = _states(model, corpus.take(context), count=count)
    yield _stepper(model, states, [corpus.take(length) for _ in states])
    for state in states:
        state.clear()


def _states(model: Model, text: Sequence[int], *, count: int) -> list[State]:
    """Sequences that have read `text`, each with blocks of its own; one really reads it."""
    states = [model.new_sequence() for _ in range(count)]
    for first in range(0, len(text), PREFILL_SLICE):
        model.forward([Chunk(states[0], text[first : first + PREFILL_SLICE], rows=0)])
    for state in states[1:]:
        state.reserve(len(text))
        for source, destination in zip(states[0].table, state.table, strict=True):
            model.pool.copy(source, destination)
        state.append(text)
    return states


def _stepper(
    model: Model, states: Sequence[State], texts: Sequence[Sequence[int]]
) -> Callable[[], None]:
    """A forward after which all states are as before."""
    lengths = [len(state.prefix) for state in states]

    def step() -> None:
        model.forward(
            [Chunk(state, text, rows=len(text)) for state, text in zip(states, texts, strict=True)]
        )
        for state, before in zip(states, lengths, strict=True):
            state.rollback(before)

    return step


def _hollow(subject: Subject) -> LlamaForCausalLM:
    layers = LlamaConfig.from_pretrained(subject.folder).num_hidden_layers
    config = LlamaConfig(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
    )
    model: LlamaForCausalLM = LlamaForCausalLM(config).to(subject.device, subject.numbers).eval()
    return model


def _synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
