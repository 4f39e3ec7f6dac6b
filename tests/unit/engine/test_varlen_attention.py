"""The kernel for sequences of any lengths: what it is told, and when it is used.

On a CPU a stand-in with the arguments of torch.nn.attention.varlen.varlen_attn takes its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from outrider.engine.kv_pool import KvLayout, KvPool, LayerShape
from outrider.engine.model import Chunk
from outrider.engine.packed_part import Part
from outrider.engine.transformers_model import TransformersModel
from outrider.engine.varlen_attention import VarlenKernel
from outrider.engine.varlen_probe import agrees, best_varlen_kernel, find_varlen_kernel
from outrider.testing.tiny_families import VOCABULARY, alone, tiny_family

LAYOUT = KvLayout(
    layers=(LayerShape(2, 16, 16), LayerShape(1, 8, 8)),
    block_size=4,
    dtype=torch.float64,
    device=torch.device("cpu"),
)


def standin(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    query_ends: torch.Tensor,
    key_ends: torch.Tensor | None,
    most_queries: int,
    most_keys: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
    seqused_k: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
) -> torch.Tensor:
    """One sequence after the other, the last query beside the last key."""
    assert enable_gqa == (query.shape[1] != keys.shape[-2])
    answers = []
    for index in range(len(query_ends) - 1):
        rows = query[int(query_ends[index]) : int(query_ends[index + 1])]
        if block_table is not None:
            assert seqused_k is not None
            assert key_ends is None
            own_keys, own_values = (
                pool[block_table[index].long()].flatten(0, 1)[: int(seqused_k[index])]
                for pool in (keys, values)
            )
        else:
            assert key_ends is not None
            own = slice(int(key_ends[index]), int(key_ends[index + 1]))
            own_keys, own_values = keys[own], values[own]
        assert len(rows) <= most_queries
        assert len(own_keys) <= most_keys
        looked_at = torch.arange(len(own_keys))
        looking = torch.arange(len(rows)).unsqueeze(1) + len(own_keys) - len(rows)
        seen = looked_at <= looking + window_size[1]
        if window_size[0] >= 0:
            seen = seen & (looked_at >= looking - window_size[0])
        answer = torch.nn.functional.scaled_dot_product_attention(
            rows.transpose(0, 1)[None],
            own_keys.transpose(0, 1)[None],
            own_values.transpose(0, 1)[None],
            attn_mask=seen,
            scale=scale,
            enable_gqa=enable_gqa,
        )
        answers.append(answer[0].transpose(0, 1))
    return torch.cat(answers)


def without_tables(*arguments: Any, **keywords: Any) -> torch.Tensor:
    if keywords.get("block_table") is not None:
        raise RuntimeError("no kernel takes block tables here")
    return standin(*arguments, **keywords)


def without_windows(*arguments: Any, **keywords: Any) -> torch.Tensor:
    return standin(*arguments, **keywords | {"window_size": (-1, 0)})


def readers_of_garbage(*arguments: Any, **keywords: Any) -> torch.Tensor:
    """Weighs what lies beyond a sequence's length with 0."""
    answer = standin(*arguments, **keywords)
    tables = keywords.get("block_table")
    return answer if tables is None else answer + 0.0 * arguments[2][tables[0].long()].sum()


def test_metadata_say_where_each_sequence_is() -> None:
    pool = KvPool(LAYOUT, blocks=9)
    parts = [
        Part([1, 2, 3], start=3, table=[7, 0], rows=0),
        Part([4], start=0, table=[5], rows=0),
    ]
    batch = VarlenKernel(standin, takes_tables=False).prepare(parts, pool)
    assert batch.query_ends.tolist() == [0, 3, 4]
    assert batch.key_ends.tolist() == [0, 6, 7]
    assert batch.index.tolist() == [28, 29, 30, 31, 0, 1, 20]
    assert (batch.most_queries, batch.most_keys) == (3, 6)
    batch = VarlenKernel(standin, takes_tables=True).prepare(parts, pool)
    assert batch.index.tolist() == [[7, 0], [5, 9]], "padded with the empty block"
    assert batch.lengths.tolist() == [6, 1]
    assert {each.dtype for each in (batch.query_ends, batch.lengths, batch.index)} == {torch.int32}


@pytest.mark.parametrize(
    ("attend", "takes_tables"),
    [
        (standin, True),
        (without_tables, False),
        (readers_of_garbage, False),
        (without_windows, None),
    ],
)
def test_the_best_kernel_that_agrees_is_taken(attend: Any, takes_tables: bool | None) -> None:
    kernel = best_varlen_kernel(LAYOUT, attend)
    assert (kernel and kernel.takes_tables) == takes_tables


def test_there_is_none_on_a_processor_or_for_long_formats() -> None:
    assert find_varlen_kernel(LAYOUT) is None
    assert find_varlen_kernel(replace(LAYOUT, dtype=torch.bfloat16)) is None
    assert find_varlen_kernel(replace(LAYOUT, device=torch.device("cuda"))) is None


@pytest.mark.parametrize("takes_tables", [True, False])
@pytest.mark.parametrize(
    ("name", "layers"), [("llama", 3), ("mistral_window", 3), ("gemma2", 0), ("gpt_bigcode", 3)]
)
def test_models_give_the_same_through_it(
    monkeypatch: pytest.MonkeyPatch, name: str, layers: int, takes_tables: bool
) -> None:
    calls = []

    def counted(*arguments: Any, **keywords: Any) -> torch.Tensor:
        calls.append(keywords)
        return standin(*arguments, **keywords)

    monkeypatch.setattr(
        "outrider.engine.transformers_model.find_varlen_kernel",
        lambda layout: VarlenKernel(counted, takes_tables),
    )
    model, reference = TransformersModel(tiny_family(name)), tiny_family(name)
    one, two = model.new_sequence(), model.new_sequence()
    ids = [each % VOCABULARY for each in range(5, 55)]
    model.forward([Chunk(one, ids[:20], 0), Chunk(two, ids[7:9], 0)])
    first, second = model.forward([Chunk(one, ids[20:25], 5), Chunk(two, ids[9:40], 31)])
    torch.testing.assert_close(first, alone(reference, ids[:25])[20:], rtol=0, atol=1e-9)
    torch.testing.assert_close(second, alone(reference, ids[7:40])[2:], rtol=0, atol=1e-9)
    assert len(calls) == 2 * layers, "what it cannot do goes another way"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_installed_kernel_agrees(dtype: torch.dtype) -> None:
    layout = KvLayout(
        layers=(LayerShape(2, 64, 64), LayerShape(1, 128, 128)),
        block_size=16,
        dtype=dtype,
        device=torch.device("cuda"),
    )
    kernel = find_varlen_kernel(layout)
    assert kernel is not None
    assert agrees(kernel, layout)
