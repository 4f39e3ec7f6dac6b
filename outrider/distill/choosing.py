"""Which of a target's layers a draft may be made of."""

from __future__ import annotations


def layer_choices(count: int, of: int) -> list[tuple[int, ...]]:
    """Ways to take `count` of a target's `of` layers: mostly the first and some of the last, and
    all spread out evenly. Rising, no two alike. Raises ValueError when there are not so many."""
    if not 1 <= count <= of:
        raise ValueError(f"1 to {of}, got {count}")
    choices = [
        (*range(count - last), *range(of - last, of))
        for last in sorted({0, 1, count // 3, count // 2, 2 * count // 3})
    ]
    even = [round(place * (of - 1) / max(1, count - 1)) for place in range(count)]
    choices.append(tuple(even))
    return sorted({choice for choice in choices if len(set(choice)) == count})
