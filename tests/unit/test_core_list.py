"""Cores are read as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.core_list import parse_cores, write_cores


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("", set()),
        (" ", set()),
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("5-5", {5}),
        ("0, 2,4-6", {0, 2, 4, 5, 6}),
        ("1,1,0-1", {0, 1}),
        ("4095", {4095}),
    ],
)
def test_what_can_be_written(text: str, cores: set[int]) -> None:
    assert parse_cores(text) == cores


@pytest.mark.parametrize("text", ["all", "-1", "3-1", "0-", "0,,1", "0;1", "4096", "1.5"])
def test_what_cannot(text: str) -> None:
    with pytest.raises(ValueError, match="such as 0, 0-3"):
        parse_cores(text)


@given(st.frozensets(st.integers(0, 40)))
def test_what_is_written_is_read(cores: frozenset[int]) -> None:
    assert parse_cores(write_cores(cores)) == cores


def test_neighbours_are_a_range() -> None:
    assert write_cores(frozenset({7, 0, 1, 2, 9, 10})) == "0-2,7,9-10"
