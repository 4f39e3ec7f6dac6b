"""Pearson's chi-square test of counts against known probabilities."""

from __future__ import annotations

import torch

_LEAST_EXPECTED = 5.0


def fit_p_value(counts: torch.Tensor, probs: torch.Tensor) -> float:
    """The p-value of `counts` [contexts, outcomes] under `probs` of the same shape.

    Each context is a multinomial of its own. Rare outcomes of a context are pooled until at least
    5 are expected; a context with a single pool says nothing and is left out. An outcome that has
    no probability and was seen gives 0.
    """
    if bool((counts[probs == 0.0] > 0).any()):
        return 0.0
    statistic, freedom = 0.0, 0
    for seen, law in zip(counts.tolist(), probs.tolist(), strict=True):
        pools = _pools(seen, [sum(seen) * prob for prob in law])
        if len(pools) > 1:
            statistic += sum((got - due) ** 2 / due for got, due in pools)
            freedom += len(pools) - 1
    if freedom == 0:
        return 1.0
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def _pools(seen: list[float], expected: list[float]) -> list[tuple[float, float]]:
    """(seen, expected) pools, the likeliest first; the last one takes what is left over."""
    pools: list[tuple[float, float]] = []
    got = due = 0.0
    for one_due, one_got in sorted(zip(expected, seen, strict=True), reverse=True):
        got, due = got + one_got, due + one_due
        if due >= _LEAST_EXPECTED:
            pools.append((got, due))
            got = due = 0.0
    if pools:
        last_got, last_due = pools[-1]
        pools[-1] = (last_got + got, last_due + due)
    return pools
