"""Counter-based randomness: every draw is a pure function of seed, choice, purpose and prefix.

A draw at position i depends on a stream seed (one per purpose, derived from the request's seed)
and on the 64-bit digest of all token ids before i. The mixing function is splitmix64's finaliser
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

import hashlib
import math
from enum import StrEnum

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


class Purpose(StrEnum):
    """What a draw decides. Two purposes never share random numbers."""

    DRAFT = "draft"
    COUPLE = "couple"
    ACCEPT = "accept"
    RECOVER = "recover"
    BONUS = "bonus"


def mix(value: int) -> int:
    """splitmix64's finaliser: a bijection of 64-bit integers with full avalanche."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def derive_seed(purpose: Purpose, *, seed: int, choice_index: int) -> int:
    """The 64-bit stream seed of one purpose, from a request's 64-bit `seed`."""
    message = purpose.encode() + seed.to_bytes(8, "little") + choice_index.to_bytes(4, "little")
    return int.from_bytes(hashlib.sha256(message).digest()[:8], "little")


def draw_word(stream_seed: int, *, position: int, digest: int) -> int:
    """The 64 random bits at `position` (0-based, prompt included) after a prefix with `digest`."""
    return mix(mix((stream_seed + (position + 1) * GOLDEN) & MASK) ^ digest)


def token_word(stream_seed: int, *, position: int, token_id: int) -> int:
    """The 64 random bits of one token at `position`, whatever comes before it: COUPLED noise."""
    return draw_word(stream_seed, position=position, digest=mix(token_id + 1))


def unit(word: int) -> float:
    """A number in [0, 1) with 53 random bits."""
    return (word >> 11) * 2.0**-53


def below(word: int, bound: int) -> int:
    """An integer in [0, bound)."""
    return (word * bound) >> 64


def gumbel(word: int) -> float:
    """Standard Gumbel noise −log(−log u), from 53 random bits; u is never 0.

    Where u is 1 up to rounding it is infinite.
    """
    u = ((word >> 11) + 0.5) * 2.0**-53
    return -math.log(-math.log(u)) if u < 1.0 else math.inf
