"""Shows a model a short history and compares it with transformers alone.

Packed with others, rolled back, forked and written on: each row must be the one that the same
weights give for the same ids in one go, without the engine. What a configuration does not say, an
attention function with arguments of its own or a neighbour that changes its neighbours, is seen
here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel

from outrider.engine.attention_interface import use_own_attention
from outrider.engine.kv_pool import KvLayout, KvPool
from outrider.engine.likeness import alike
from outrider.engine.load_error import ModelLoadError
from outrider.engine.model import Chunk, Sequence
from outrider.engine.transformers_model import TransformersModel

BLOCKS = 16


@dataclass(frozen=True, slots=True)
class _Answer:
    """The last rows of a sequence, and the keys of each layer [ids, heads, size] then."""

    token_ids: tuple[int, ...]
    rows: torch.Tensor
    keys: list[torch.Tensor]


@torch.inference_mode()
def check_attention(model: PreTrainedModel, *, layout: KvLayout, context_length: int) -> None:
    """Leaves the model attending as transformers alone does.

    Raises ModelLoadError, which names the first layer that differs.
    """
    kv = KvPool(layout, blocks=BLOCKS)
    try:
        answers = _history(TransformersModel(model, context_length=context_length, kv=kv))
    except ModelLoadError:
        raise
    except Exception as error:
        raise ModelLoadError(
            f"layer 0: a model of type {model.config.model_type} cannot be run in packed batches: "
            f"{type(error).__name__}: {error}"
        ) from error
    use_own_attention(model)
    for answer in answers:
        _compare(model, answer)
    _check_neighbours(model, context_length=context_length)


def _history(model: TransformersModel) -> list[_Answer]:
    """Two sequences and a fork of one. Each is written on where another shares its block."""
    size = min(model.pool.block_size, (model.context_length - 1) // 2)
    ids = [each % model.vocabulary_size for each in range(3, 3 + 4 * size)]
    first, second = model.new_sequence(), model.new_sequence()
    answers = _read(model, (first, ids[: size + 1]), (second, ids[size : size + 3]))
    fork = first.fork()
    _read(model, (first, ids[-3:]), (second, ids[5:6]))
    first.rollback(size + 1)
    answers += _read(model, (fork, ids[5:8]), (first, ids[:2]), (second, ids[2:3]))
    first.rollback(size - 1)
    return answers + _read(model, (second, ids[:2]), (first, ids[2 : 2 + size]))


def _read(model: TransformersModel, *news: tuple[Sequence, list[int]]) -> list[_Answer]:
    rows = model.forward([Chunk(sequence, ids, len(ids)) for sequence, ids in news])
    return [
        _Answer(tuple(sequence.prefix.token_ids), answer, _keys(model, sequence))
        for (sequence, _), answer in zip(news, rows, strict=True)
    ]


def _keys(model: TransformersModel, sequence: Sequence) -> list[torch.Tensor]:
    table = torch.tensor(sequence.table, device=model.device)
    length = len(sequence.prefix)
    return [keys[table].flatten(0, 1)[:length] for keys in model.kv.keys]


def _compare(model: PreTrainedModel, answer: _Answer) -> None:
    cache = DynamicCache()
    token_ids = torch.tensor([answer.token_ids], device=model.device)
    logits = model(token_ids, cache=cache, use_cache=True).logits[0]
    expected = logits[-len(answer.rows) :, : answer.rows.shape[1]]
    if alike(answer.rows, expected):
        return
    for index, layer in enumerate(cache.layers):
        if not alike(answer.keys[index].flatten(1), layer.keys[0].transpose(0, 1).flatten(1)):
            # Keys are made from what the layer before gave.
            raise _refusal(model, max(0, index - 1))
    raise _refusal(model, len(cache.layers) - 1)


def _check_neighbours(model: PreTrainedModel, *, context_length: int) -> None:
    """A sequence at the far end of the context beside one at its start must not change it."""
    count = min(4, context_length // 2)
    token_ids = torch.arange(3, 3 + count, device=model.device).expand(2, -1)
    near = torch.arange(count, device=model.device)
    positions = torch.stack([near, near + context_length - count])
    alone = model(token_ids[:1], position_ids=positions[:1], use_cache=False).logits[0]
    beside = model(token_ids, position_ids=positions, use_cache=False).logits[0]
    if not alike(beside, alone):
        raise ModelLoadError(
            f"rope of a model of type {model.config.model_type}: what a sequence gives depends on "
            f"the length of others beside it, within {context_length} tokens"
        )


def _refusal(model: PreTrainedModel, index: int) -> ModelLoadError:
    kinds = getattr(model.config.get_text_config(decoder=True), "layer_types", None)
    kind = kinds[index] if kinds else "attention"
    return ModelLoadError(
        f"layer {index} ({kind}) gives something else in packed batches than alone"
    )
