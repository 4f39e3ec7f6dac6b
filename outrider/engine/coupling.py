"""COUPLED choices: the token with the largest log p + g, where g is noise that every model shares.

g is standard Gumbel noise, a function of seed, position and token id alone. The largest
log p + g is then a draw from p (Gumbel, 1954; Maddison, Tarlow and Minka, "A* sampling", 2014), and
two models that are alike mostly choose the same token.

Most tokens cannot win, and are told apart without a logarithm. A score of at least b needs
−log u ≤ p·exp(−b), and 1 − u ≤ −log u. With b the score that the most likely tokens set, few are
left; those are scored one by one, as the definition says, on any device alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from outrider.engine.columns import Columns
from outrider.engine.leaders import leading
from outrider.randomness import GOLDEN, MASK, gumbel, mix, token_word

_LEADERS = 256
# Covers the rounding of both sides in float32.
_SLACK = 1.0001


def coupled_choices(
    probs: torch.Tensor, *, columns: Columns, couple_seed: int, position: int
) -> list[int]:
    """The token id that each row chooses; `probs` is [rows, columns], row j at `position` + j."""
    orders = _orders(probs, columns=columns, couple_seed=couple_seed, position=position, count=1)
    return [order[0] for order in orders]


def coupled_order(
    probs: torch.Tensor, *, columns: Columns, couple_seed: int, position: int, count: int
) -> list[int]:
    """The `count` ids (at least 1) with the largest log p + g, best first, of `probs` [columns].

    Among equals the lower id comes first. Never an id with p = 0, so there may be fewer.
    """
    (order,) = _orders(
        probs[None], columns=columns, couple_seed=couple_seed, position=position, count=count
    )
    return order


def token_words(
    token_ids: torch.Tensor, *, couple_seed: int, positions: Sequence[int]
) -> torch.Tensor:
    """The 64 random bits of ids, int64 [rows or 1, n], row j at `positions[j]`: [rows, n].

    Bit for bit those of `token_word`, as signed numbers.
    """
    words = _mix_(token_ids + 1).expand(len(positions), -1).clone()
    # Row by row, so that what is worked on stays in a processor's cache.
    for row, position in zip(words, positions, strict=True):
        row ^= _signed(mix((couple_seed + (position + 1) * GOLDEN) & MASK))
        _mix_(row)
    return words


def _orders(
    probs: torch.Tensor, *, columns: Columns, couple_seed: int, position: int, count: int
) -> list[list[int]]:
    positions = range(position, position + probs.shape[0])
    values, places = leading(probs, min(max(_LEADERS, count), probs.shape[1]))
    token_ids = columns.token_ids(places)
    missing = _missing_(token_words(token_ids, couple_seed=couple_seed, positions=positions))
    scores = _scores(values, missing)
    least = scores.topk(min(count, scores.shape[1]), dim=1).values[:, -1:]
    if values.shape[1] < probs.shape[1] and bool(values[:, -1].any()):
        # Some row has more tokens than its leaders.
        values = probs
        token_ids = columns.token_ids(torch.arange(probs.shape[1], device=probs.device))[None]
        missing = _missing_(token_words(token_ids, couple_seed=couple_seed, positions=positions))
    # 1 − u ≤ p·exp(−least), in units of 2^-53 and rounded towards more tokens.
    most = values * ((-least).exp() * (_SLACK * 2.0**53)).to(values.dtype)
    contends = missing.to(values.dtype) <= most
    scored: list[list[tuple[float, int]]] = [[] for _ in positions]
    for row, token_id, prob in zip(
        contends.nonzero()[:, 0].tolist(),
        token_ids.expand(values.shape)[contends].tolist(),
        values[contends].tolist(),
        strict=True,
    ):
        if prob > 0.0:
            word = token_word(couple_seed, position=position + row, token_id=token_id)
            scored[row].append((-math.log(prob) - gumbel(word), token_id))
    return [[token_id for _, token_id in sorted(row)[:count]] for row in scored]


def _scores(probs: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
    """log p + g up to rounding, −inf where p is 0."""
    u = (((MASK >> 11) - missing).double() + 0.5) * 2.0**-53
    scores = probs.double().log() - (-u.log()).log()
    return scores.masked_fill(probs == 0.0, -torch.inf)


def _missing_(words: torch.Tensor) -> torch.Tensor:
    """2^53 − 1 less the 53 bits of u, in place: how far u is below 1."""
    return words.bitwise_not_().bitwise_right_shift_(11).bitwise_and_(MASK >> 11)


def _mix_(values: torch.Tensor) -> torch.Tensor:
    """`outrider.randomness.mix` of signed 64-bit integers, in place; they wrap as unsigned do."""
    _fold_(values, 30).mul_(_signed(0xBF58476D1CE4E5B9))
    _fold_(values, 27).mul_(_signed(0x94D049BB133111EB))
    return _fold_(values, 31)


def _fold_(values: torch.Tensor, bits: int) -> torch.Tensor:
    """x xor (x >> bits), shifted as if unsigned."""
    return values.bitwise_xor_((values >> bits).bitwise_and_(MASK >> bits))


def _signed(value: int) -> int:
    """The signed 64-bit integer with the bits of an unsigned one."""
    return value - (value >> 63 << 64)
