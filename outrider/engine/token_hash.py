"""The hash of `outrider.randomness` over many numbers at once, bit for bit the same.

Tensors have no unsigned 64-bit arithmetic; signed numbers wrap alike, and stand for the same bits.
"""

from __future__ import annotations

import torch

from outrider.randomness import GOLDEN, MASK, mix


def token_hashes(token_ids: torch.Tensor) -> torch.Tensor:
    """What of a token's random bits does not depend on seed and position: int64, same shape."""
    return _mix_(token_ids + 1)


def token_words(hashes: torch.Tensor, *, stream_seed: int, position: int) -> torch.Tensor:
    """The 64 random bits of tokens at a position, from their `token_hashes`: int64, same shape.

    Those of `outrider.randomness.token_word`, as signed numbers.
    """
    return _mix_(hashes ^ _signed(mix((stream_seed + (position + 1) * GOLDEN) & MASK)))


def _mix_(values: torch.Tensor) -> torch.Tensor:
    """splitmix64's finaliser, in place."""
    _fold_(values, 30).mul_(_signed(0xBF58476D1CE4E5B9))
    _fold_(values, 27).mul_(_signed(0x94D049BB133111EB))
    return _fold_(values, 31)


def _fold_(values: torch.Tensor, bits: int) -> torch.Tensor:
    """x xor (x >> bits), shifted as if unsigned."""
    return values.bitwise_xor_((values >> bits).bitwise_and_(MASK >> bits))


def _signed(value: int) -> int:
    """The signed 64-bit integer with the bits of an unsigned one."""
    return value - (value >> 63 << 64)
