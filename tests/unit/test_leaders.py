"""The largest entries of each row, lower columns first among equals."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.leaders import leaders, leading


def by_sorting(row: list[float], count: int) -> list[int]:
    return sorted(range(len(row)), key=lambda column: (-row[column], column))[:count]


@pytest.mark.parametrize("count", [1, 3, 8, 12])
def test_order_among_many_equals(count):
    rows = torch.randint(0, 4, (50, 12), generator=torch.Generator().manual_seed(0)).double()
    values, columns = leaders(rows, count)
    assert columns.tolist() == [by_sorting(row, count) for row in rows.tolist()]
    assert torch.equal(values, rows.gather(1, columns))


def test_equals_far_apart_in_a_large_row():
    rows = torch.zeros(2, 40_000)
    rows[1, 39_999] = 1.0
    _, columns = leaders(rows, 3)
    assert columns.tolist() == [[0, 1, 2], [39_999, 0, 1]]


def test_impossible_entries_come_last():
    rows = torch.full((1, 6), -torch.inf)
    rows[0, 4] = -3.0
    _, columns = leaders(rows, 3)
    assert columns.tolist() == [[4, 0, 1]]


def test_equals_at_the_end_leave_the_order_of_what_is_above():
    rows = torch.tensor([[1.0, 2.0, 5.0, 3.0, 1.0, 1.0]])
    values, columns = leaders(rows, 4)
    assert columns.tolist() == [[2, 3, 1, 0]]
    assert values.tolist() == [[5.0, 3.0, 2.0, 1.0]]


@pytest.mark.parametrize("size", [9_000, 9_007])
@pytest.mark.parametrize("kinds", [40, 100_000])
def test_a_long_row_is_searched_in_parts_and_gives_the_same(size, kinds):
    generator = torch.Generator().manual_seed(size + kinds)
    rows = torch.randint(0, kinds, (6, size), generator=generator).float()
    values, columns = leaders(rows, 50)
    assert columns.tolist() == [by_sorting(row, 50) for row in rows.tolist()]
    assert torch.equal(values, rows.gather(1, columns))
    loose_values, loose_columns = leading(rows, 50)
    assert torch.equal(loose_values, values)
    assert torch.equal(rows.gather(1, loose_columns), values)
    above = values > values[:, -1:]
    assert torch.equal(loose_columns[above], columns[above])
