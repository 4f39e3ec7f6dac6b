"""What the next forward reads, of chunks that wait."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.engine.schedule import SMALL_TOKENS, Pending, schedule


def chunk(left: int, *, rows: int = 1, arrived: float = 0.0, served: int = 1) -> Pending:
    return Pending(left, rows, arrived, served=served)


def planned(pending: Sequence[Pending], *, budget: int = 2048, prefill: int = 64) -> list[int]:
    return schedule(pending, token_budget=budget, prefill_budget=lambda small: prefill)


def test_a_first_token_does_not_wait_for_a_prompt_but_every_other_time() -> None:
    pending = [chunk(5), chunk(4000), chunk(20, served=0)]

    def counts(due: bool) -> list[int]:
        return schedule(
            pending, token_budget=2048, prefill_budget=lambda small: 64, prompts_due=due
        )

    assert counts(False) == [5, 0, 20]
    assert counts(True) == [5, 64, 20]


def test_nothing_waits() -> None:
    assert planned([]) == []


def test_small_chunks_are_read_whole_beside_a_part_of_a_prompt() -> None:
    assert planned([chunk(5), chunk(4000), chunk(1), chunk(32)]) == [5, 64, 1, 32]


def test_a_lone_prompt_gets_the_whole_slice() -> None:
    assert planned([chunk(4000)], prefill=128) == [128]


def test_the_oldest_prompt_gets_half_and_the_shortest_of_the_others_the_rest() -> None:
    prompts = [chunk(1000, arrived=2.0), chunk(4000, arrived=1.0), chunk(300, arrived=3.0)]
    assert planned(prompts) == [0, 32, 32]


def test_the_oldest_gets_what_the_others_do_not_need() -> None:
    prompts = [chunk(4000, arrived=1.0), chunk(40, arrived=2.0)]
    assert planned(prompts, prefill=256) == [216, 40]


def test_the_others_get_what_the_oldest_does_not_need() -> None:
    prompts = [chunk(40, arrived=1.0), chunk(4000, arrived=2.0)]
    assert planned(prompts, prefill=256) == [40, 216]


def test_equally_short_prompts_go_by_age() -> None:
    prompts = [chunk(900, arrived=1.0), chunk(500, arrived=3.0), chunk(500, arrived=2.0)]
    assert planned(prompts) == [32, 0, 32]


def test_over_the_budget_who_was_served_longest_ago_goes_first() -> None:
    pending = [chunk(4, served=7), chunk(4, served=5), chunk(4, served=6), chunk(4, served=5)]
    assert planned(pending, budget=8) == [0, 4, 0, 4]


def test_nobody_overtakes_a_small_chunk_that_does_not_fit() -> None:
    pending = [chunk(8, served=1), chunk(8, served=2), chunk(1, served=3)]
    assert planned(pending, budget=12) == [8, 0, 0]


def test_small_chunks_leave_a_part_of_the_budget_to_prompts() -> None:
    pending = [*(chunk(8, served=number) for number in range(1, 21)), chunk(4000)]
    counts = planned(pending, budget=128)
    assert sum(counts) == 128
    assert counts[-1] == 32


def test_a_chunk_over_the_budget_is_read_alone() -> None:
    assert planned([chunk(30), chunk(30)], budget=16) == [30, 0]


@pytest.mark.parametrize(("left", "rows"), [(65, 65), (40, 40)])
def test_wanted_rows_stay_together(left: int, rows: int) -> None:
    assert planned([chunk(left, rows=rows)], prefill=32) == [left]


def test_the_part_before_wanted_rows_is_read_alone() -> None:
    assert planned([chunk(70, rows=60)], prefill=32) == [10]


def test_the_prefill_budget_is_asked_with_the_small_tokens() -> None:
    asked: list[int] = []

    def budget(small: int) -> int:
        asked.append(small)
        return 32

    pending = [chunk(5), chunk(7), chunk(400)]
    assert schedule(pending, token_budget=2048, prefill_budget=budget) == [5, 7, 32]
    assert asked == [12]


def test_of_equal_prompts_one_is_read_and_the_others_wait_for_its_blocks() -> None:
    def prompt(arrived: float, block: str | None) -> Pending:
        return Pending(400, 1, arrived, next_block=block)

    twins = [prompt(2.0, "a"), prompt(1.0, "a"), prompt(3.0, "b"), prompt(4.0, "b")]
    assert planned(twins) == [0, 32, 32, 0]
    unknown = [prompt(1.0, None), prompt(2.0, None)]
    assert planned(unknown) == [32, 32]


chunks = st.builds(
    lambda left, rows, arrived, served, block: Pending(
        left, min(left, rows), arrived, served=served, next_block=block
    ),
    st.integers(1, 500),
    st.integers(0, 70),
    st.floats(0, 10),
    st.integers(0, 10),
    st.sampled_from([None, "a", "b"]),
)


@given(st.lists(chunks, min_size=1, max_size=12), st.integers(64, 4096), st.integers(1, 2048))
def test_every_plan_is_lawful(pending: list[Pending], budget: int, prefill: int) -> None:
    counts = planned(pending, budget=budget, prefill=prefill)
    assert any(counts), "a step always advances something"
    small = sum(count for chunk, count in zip(pending, counts, strict=True) if chunk.small)
    assert small <= max(budget, max(chunk.left for chunk in pending))
    for each, count in zip(pending, counts, strict=True):
        assert 0 <= count <= each.left
        if each.small:
            assert count in (0, each.left)
        elif count < each.left:
            assert each.left - count >= each.rows
    long = [each for each in pending if not each.small]
    if long:
        oldest = min(long, key=lambda each: each.arrived)
        first = any(each.served == 0 and each.small for each in pending)
        assert counts[pending.index(oldest)] > 0 or oldest.next_block is not None or first
        parts = sum(count for each, count in zip(pending, counts, strict=True) if not each.small)
        assert parts <= max(prefill, 1)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=8), st.integers(1, 200))
def test_everything_is_read_in_the_end(lengths: list[int], prefill: int) -> None:
    left = dict(enumerate(lengths))
    served, due = dict.fromkeys(left, 0), False
    for step in range(1, 10_000):
        if not left:
            return
        names = list(left)
        pending = [chunk(left[name], arrived=name, served=served[name]) for name in names]
        counts = schedule(
            pending,
            token_budget=SMALL_TOKENS * 2,
            prefill_budget=lambda small: prefill,
            prompts_due=due,
        )
        read = [count for each, count in zip(pending, counts, strict=True) if not each.small]
        due = bool(read) and not any(read)
        for name, count in zip(names, counts, strict=True):
            left[name] -= count
            served[name] = step if count else served[name]
            if left[name] == 0:
                del left[name]
    pytest.fail("something was never read")
