"""Small linear systems in plain Python: for three unknowns, tensors take longer than the sums."""

from __future__ import annotations

from collections.abc import Sequence

Matrix = list[list[float]]


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """x with matrix · x = right, for a symmetric positive definite matrix [n, n]."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for pivot in range(size):
        for below in range(pivot + 1, size):
            factor = rows[below][pivot] / rows[pivot][pivot]
            for column in range(pivot, size + 1):
                rows[below][column] -= factor * rows[pivot][column]
    found = [0.0] * size
    for index in reversed(range(size)):
        known = sum(rows[index][column] * found[column] for column in range(index + 1, size))
        found[index] = (rows[index][size] - known) / rows[index][index]
    return found


def solve_without_negatives(
    matrix: Sequence[Sequence[float]], right: Sequence[float]
) -> list[float]:
    """As `solve`, but what would be most negative is 0 and the others are found anew."""
    kept = list(range(len(right)))
    while True:
        reduced = [[matrix[row][column] for column in kept] for row in kept]
        found = dict(zip(kept, solve(reduced, [right[index] for index in kept]), strict=True))
        if all(value >= 0.0 for value in found.values()):
            return [found.get(index, 0.0) for index in range(len(right))]
        kept.remove(min(found, key=found.__getitem__))
