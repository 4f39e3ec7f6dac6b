"""What can be measured by name."""

from __future__ import annotations

from inspect import signature

import pytest

from benchmarks.catalogue import (
    ENGINE_ROWS,
    PAIR,
    PARTS,
    SPECULATION_ROWS,
    TROUBLE_ROWS,
    find,
    known_names,
)

ONE_HOUR_S = 60 * 60


def test_all_of_speed_is_measured_when_nothing_is_named() -> None:
    assert find([]) == [*PAIR, *ENGINE_ROWS, *SPECULATION_ROWS]


def test_the_whole_run_stays_within_an_hour() -> None:
    assert sum(one.seconds for one in find([])) <= ONE_HOUR_S


def test_the_engine_is_a_name_for_all_its_rows() -> None:
    assert find(["engine"]) == list(ENGINE_ROWS)


def test_so_is_speculation() -> None:
    assert find(["speculation"]) == list(SPECULATION_ROWS)


def test_so_is_trouble() -> None:
    assert find(["trouble"]) == list(TROUBLE_ROWS)


def test_a_single_row_is_measured_alone() -> None:
    (one,) = find(["batched_verify_8_float32"])

    assert one.options == {"dtypes": ("float32",)}
    assert one.seconds < 60


def test_names_are_unique() -> None:
    assert len(set(known_names())) == len(known_names())


def test_an_unknown_name_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown: nothing"):
        find(["wire", "nothing"])


@pytest.mark.parametrize(
    "one",
    [*PAIR, *ENGINE_ROWS, *SPECULATION_ROWS, *TROUBLE_ROWS, *PARTS],
    ids=lambda one: one.name,
)
def test_each_takes_its_options(one: object) -> None:
    (known,) = find([getattr(one, "name", "")])

    signature(known.measure).bind(**known.options)
