"""Attention of a packed batch over paged keys and values, by scaled_dot_product_attention."""

from __future__ import annotations

import torch

from outrider.engine.attention_group import FOLDED_ROWS, AttentionGroup
from outrider.engine.packed_batch import PackedBatch
from outrider.engine.scoring import Scoring


def paged_attention(
    batch: PackedBatch,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scoring: Scoring,
) -> torch.Tensor:
    """The attention of all tokens, [T, query heads, value size].

    `query`: [T, query heads, key size]; `keys`, `values`: a layer's pool
    [blocks, block_size, heads, size].
    """
    answers, first = [], 0
    for group in batch.groups:
        rows = query[first : first + group.tokens]
        answers.append(_attend(group, rows, keys, values, scoring))
        first += group.tokens
    return answers[0] if len(answers) == 1 else torch.cat(answers)


def _attend(
    group: AttentionGroup,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scoring: Scoring,
) -> torch.Tensor:
    """One group: [tokens, query heads, size] → [tokens, query heads, value size].

    Query heads that share a key head (grouped-query attention, arXiv:2305.13245) are folded into
    rows, so that a key is read once for all of them. Heads of many rows gain nothing from that.
    """
    count, rows = group.sequences, group.rows
    heads, shared = query.shape[1], query.shape[1] // keys.shape[2]
    if group.padded is not None:
        query = query.index_select(0, group.padded)
    # [N, R, key heads, shared, size] → [N, key heads, shared, R, size]
    query = query.view(count, rows, -1, shared, query.shape[2]).permute(0, 2, 3, 1, 4)
    own_keys, own_values = (group.gather(pool).transpose(1, 2) for pool in (keys, values))
    if scoring.plain and count == 1 and rows >= FOLDED_ROWS:
        query = query[0]
        own_keys, own_values = (
            each[0].unsqueeze(1).expand(-1, shared, -1, -1) for each in (own_keys, own_values)
        )
        mask = group.mask(scoring.rule, fold=1, dtype=query.dtype)
    else:
        query = query.flatten(2, 3)
        mask = group.mask(scoring.rule, fold=shared, dtype=query.dtype)
    if scoring.plain:
        answer = torch.nn.functional.scaled_dot_product_attention(
            query, own_keys, own_values, attn_mask=mask, scale=scoring.scaling
        )
    else:
        answer = _weigh(query, own_keys, own_values, mask, scoring)
    answer = answer.reshape(count, -1, shared, rows, answer.shape[-1])
    answer = answer.permute(0, 3, 1, 2, 4).reshape(count * rows, heads, -1)
    return answer if group.real is None else answer.index_select(0, group.real)


def _weigh(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scoring: Scoring,
) -> torch.Tensor:
    """What scaled_dot_product_attention cannot do, step by step, in float32 at least.

    `query`: [N, key heads, shared · R, size].
    """
    scores = torch.matmul(query, keys.transpose(-1, -2)) * scoring.scaling
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    if mask is not None:
        scores = scores + mask
    if scoring.sinks is None:
        return torch.matmul(scores.softmax(-1).to(values.dtype), values)
    rows = scores.shape[1] * scores.shape[2] // scoring.sinks.shape[0]
    sinks = scoring.sinks.to(scores.dtype).repeat_interleave(rows)
    sinks = sinks.view(scores.shape[1:3]).expand(scores.shape[:-1]).unsqueeze(-1)
    weights = torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
    return torch.matmul(weights.to(values.dtype), values)
