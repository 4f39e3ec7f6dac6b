"""A cache is a memo: whatever a state went through, its logits are those of a fresh one."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.engine.model import Chunk
from outrider.testing.tiny_models import tiny_model

MODEL = tiny_model()
CONTEXT = 96

steps = st.lists(
    st.tuples(
        st.integers(0, 40),  # how many of the last ids to forget first
        st.lists(st.integers(0, 127), min_size=1, max_size=24),
    ),
    min_size=1,
    max_size=8,
)


@given(steps=steps, rows=st.integers(1, 24))
@settings(max_examples=60, deadline=None)
def test_warm_equals_cold(steps: list[tuple[int, list[int]]], rows: int) -> None:
    warm = MODEL.new_sequence()
    ids: list[int] = []
    logits = torch.empty(0)
    for forget, new in steps:
        ids = ids[: max(0, len(ids) - forget)][: CONTEXT - len(new)]
        warm.rollback(len(ids))
        ids += new
        logits = MODEL.forward([Chunk(warm, new, min(rows, len(new)))])[0]
    cold = MODEL.new_sequence()
    expected = MODEL.forward([Chunk(cold, ids, logits.shape[0])])[0]
    assert list(warm.prefix.token_ids) == ids
    assert warm.prefix.digest(len(ids)) == cold.prefix.digest(len(ids))
    assert warm.kv_bytes == cold.kv_bytes
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
