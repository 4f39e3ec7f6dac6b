"""Small linear systems, against torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.engine.least_squares import solve, solve_without_negatives

seeds = st.integers(0, 10_000)


def system(seed: int, size: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """A positive definite matrix and a right side."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn(size, size, generator=generator, dtype=torch.float64)
    right = torch.randn(size, generator=generator, dtype=torch.float64)
    return half @ half.T + torch.eye(size, dtype=torch.float64), right


@given(seeds, st.integers(1, 5))
def test_it_solves(seed: int, size: int) -> None:
    matrix, right = system(seed, size)
    expected = torch.linalg.solve(matrix, right).tolist()
    assert solve(matrix.tolist(), right.tolist()) == pytest.approx(expected)


@given(seeds)
def test_without_negatives_it_solves_for_the_others(seed: int) -> None:
    matrix, right = system(seed)
    found = solve_without_negatives(matrix.tolist(), right.tolist())
    assert all(value >= 0.0 for value in found)
    kept = [index for index, value in enumerate(found) if value > 0.0]
    expected = torch.linalg.solve(matrix[kept][:, kept], right[kept]).tolist()
    assert [found[index] for index in kept] == pytest.approx(expected)


def test_what_is_positive_already_is_left_alone() -> None:
    matrix, right = [[2.0, 1.0], [1.0, 2.0]], [3.0, 3.0]
    assert solve_without_negatives(matrix, right) == pytest.approx([1.0, 1.0])


def test_everything_may_be_zero() -> None:
    assert solve_without_negatives([[1.0, 0.0], [0.0, 1.0]], [-1.0, -2.0]) == [0.0, 0.0]
