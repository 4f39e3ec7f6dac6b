"""Batches are padded to few sizes where that pays, and to none where it does not."""

from __future__ import annotations

import pytest
import torch

from outrider.engine.compiled_shapes import AnyShape, BatchShape, PowersOfTwo, shapes_for


def test_any_size_stays_as_it_is() -> None:
    shapes = AnyShape()
    assert shapes.fit(1, 0) == BatchShape(1, 1)
    assert shapes.fit(1, 1) == BatchShape(1, 1)
    assert shapes.fit(40, 40) == BatchShape(40, 40)
    assert shapes.fit(1999, 3) == BatchShape(1999, 3)


@pytest.mark.parametrize(
    ("tokens", "rows", "fitted"),
    [
        (1, 0, (1, 1)),
        (1, 1, (1, 1)),
        (2, 0, (2, 2)),
        (2, 2, (2, 2)),
        (3, 1, (4, 4)),
        (9, 9, (16, 16)),
        (16, 0, (16, 16)),
        (17, 0, (32, 16)),
        (32, 16, (32, 16)),
        (32, 17, (32, 32)),
        (64, 64, (64, 64)),
    ],
)
def test_the_smallest_that_holds_a_batch(tokens: int, rows: int, fitted: tuple[int, int]) -> None:
    shape = PowersOfTwo(most_tokens=64, few=16).fit(tokens, rows)
    assert shape == BatchShape(*fitted)


def test_beyond_the_largest_nothing_is_compiled() -> None:
    assert PowersOfTwo(most_tokens=64).fit(65, 1) is None


@pytest.mark.parametrize("shapes", [PowersOfTwo(), PowersOfTwo(most_tokens=16, few=4), AnyShape()])
def test_the_first_shape_tells_tokens_from_rows(shapes: PowersOfTwo | AnyShape) -> None:
    first = shapes.warm[0]
    assert first.rows < first.tokens


def test_every_shape_that_a_batch_may_get_is_warm() -> None:
    shapes = PowersOfTwo(most_tokens=64, few=16)
    fitted = {shapes.fit(tokens, rows) for tokens in range(1, 65) for rows in range(tokens + 1)}
    assert fitted == set(shapes.warm)


def test_padding_is_for_devices_with_graphs() -> None:
    assert isinstance(shapes_for(torch.device("cpu")), AnyShape)
    assert isinstance(shapes_for(torch.device("cuda", 0)), PowersOfTwo)
