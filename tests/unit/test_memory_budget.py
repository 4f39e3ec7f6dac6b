"""Memory as a share or as bytes."""

from __future__ import annotations

import pytest

from outrider.memory_budget import MemoryBudget


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("auto", MemoryBudget()),
        (" AUTO ", MemoryBudget()),
        ("0.9", MemoryBudget(share=0.9)),
        (".5", MemoryBudget(share=0.5)),
        ("1", MemoryBudget(share=1.0)),
        ("30%", MemoryBudget(share=0.3)),
        ("100 %", MemoryBudget(share=1.0)),
        ("2GiB", MemoryBudget(size=2 << 30)),
        ("2Gi", MemoryBudget(size=2 << 30)),
        ("1.5 gib", MemoryBudget(size=3 << 29)),
        ("8G", MemoryBudget(size=8 * 10**9)),
        ("500MB", MemoryBudget(size=500_000_000)),
        ("1500000000", MemoryBudget(size=1_500_000_000)),
        ("64b", MemoryBudget(size=64)),
    ],
)
def test_what_a_budget_may_look_like(text: str, budget: MemoryBudget) -> None:
    assert MemoryBudget.parse(text) == budget


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0%",
        "101%",
        "-1",
        "1.5",
        "2.5b",
        "much",
        "2",
        "30",
        "2 GX",
        "1e9",
        "nan",
        "inf",
        "0GiB",
        "3 %%",
    ],
)
def test_what_it_may_not(text: str) -> None:
    with pytest.raises(ValueError, match="a share such as"):
        MemoryBudget.parse(text)
