"""Columns arrive as they were, in one copy."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.staging import stage

CPU = torch.device("cpu")


@pytest.mark.parametrize("columns", [[[1, 2], [], [3]], [[]], [[2**40, -1]], [[], [7], []]])
def test_columns_arrive_as_they_were(columns: list[list[int]]) -> None:
    staged = stage(columns, device=CPU)
    assert [column.tolist() for column in staged] == columns
    assert all(column.dtype == torch.int64 for column in staged)


def test_there_is_one_copy() -> None:
    first, second = stage([[1, 2], [3]], device=CPU)
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert first.storage_offset() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_nobody_waits_for_a_device() -> None:
    device = torch.device("cuda", 0)
    stage([[0]], device=device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        staged = stage([[1, 2], [3]], device=device)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [column.tolist() for column in staged] == [[1, 2], [3]]
