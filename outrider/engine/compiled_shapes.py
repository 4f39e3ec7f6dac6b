"""Which sizes of batches a compiled network runs, and how far batches are padded to have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


@dataclass(frozen=True, slots=True)
class BatchShape:
    """`tokens` in the row, `rows` of logits; at least one of each."""

    tokens: int
    rows: int


class CompiledShapes(Protocol):
    """What is run before anybody waits for it, and what each batch is padded to."""

    warm: Sequence[BatchShape]
    """The first is the one that the graph is made for. It has fewer rows than tokens: a compiler
    takes sizes that are equal then for one size."""

    def fit(self, tokens: int, rows: int) -> BatchShape | None:
        """The shape that such a batch is padded to, or None if it is not to be compiled."""
        ...


class AnyShape:
    """Every size as it is: on a CPU one graph does for all, and padding would cost time."""

    warm: Sequence[BatchShape] = (BatchShape(24, 16), BatchShape(1, 1), BatchShape(5, 5))

    def fit(self, tokens: int, rows: int) -> BatchShape | None:
        """Itself; a row is made where none is wanted."""
        return BatchShape(tokens, max(1, rows))


class PowersOfTwo:
    """Few sizes, so that a CUDA graph is there for each. Padding costs little on such a device.

    Few tokens have all their rows made, many tokens few of them or all. Batches of more tokens
    are long in their kernels and gain nothing from graphs.
    """

    def __init__(self, *, most_tokens: int = 512, few: int = 128) -> None:
        """`few`: up to so many tokens all rows are made. Both are powers of two."""
        sizes = [1 << step for step in range(most_tokens.bit_length())]
        shapes = {BatchShape(size, rows) for size in sizes for rows in (min(size, few), size)}
        self._shapes = sorted(shapes, key=lambda shape: (shape.tokens, shape.rows))
        # Those of fewer rows than tokens first.
        self.warm: Sequence[BatchShape] = sorted(
            self._shapes, key=lambda shape: shape.tokens == shape.rows
        )

    def fit(self, tokens: int, rows: int) -> BatchShape | None:
        """The smallest that holds it."""
        return next(
            (each for each in self._shapes if each.tokens >= tokens and each.rows >= rows), None
        )


def shapes_for(device: torch.device) -> CompiledShapes:
    """What suits a device."""
    return PowersOfTwo() if device.type == "cuda" else AnyShape()
