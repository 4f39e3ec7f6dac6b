"""The counter-based random numbers: golden values, uniformity, independence."""

from __future__ import annotations

import hashlib
import struct
from itertools import combinations, pairwise

import pytest
import torch

from outrider.prefix import EMPTY_DIGEST, TokenPrefix
from outrider.randomness import Purpose, below, derive_seed, draw_word, mix, unit
from outrider.testing.exactness.fit import fit_p_value

TWO_64 = 2**64
DRAWS = 40_000


def slow_mix(value: int) -> int:
    """splitmix64's finaliser on lists of bits, apart from the product."""

    def xor_shifted(number: int, shift: int) -> int:
        bits = [number >> place & 1 for place in range(64)]
        moved = bits[shift:] + [0] * shift
        return sum(
            (a + b) % 2 << place for place, (a, b) in enumerate(zip(bits, moved, strict=True))
        )

    value = xor_shifted(value, 30) * 13787848793156543929 % TWO_64
    value = xor_shifted(value, 27) * 10723151780598845931 % TWO_64
    return xor_shifted(value, 31)


def slow_digest(token_ids: list[int]) -> int:
    digest = slow_mix(0)
    for token_id in token_ids:
        digest = slow_mix(digest ^ (token_id + 1) * 11400714819323198485 % TWO_64)
    return digest


def test_published_values_of_splitmix64():
    golden = 0x9E3779B97F4A7C15
    states = [(step * golden) % TWO_64 for step in (1, 2, 3)]
    assert [mix(state) for state in states] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


@pytest.mark.parametrize("value", [0, 1, 2**63, TWO_64 - 1, 0x0123456789ABCDEF])
def test_mix_by_bits(value):
    assert mix(value) == slow_mix(value)


@pytest.mark.parametrize("token_ids", [[], [0], [0, 0], [1, 2, 3], [2**32 - 1, 49_151, 0]])
def test_digest_by_bits(token_ids):
    prefix = TokenPrefix(token_ids)
    lengths = range(len(token_ids) + 1)
    assert [prefix.digest(n) for n in lengths] == [slow_digest(token_ids[:n]) for n in lengths]
    assert prefix.digest(0) == EMPTY_DIGEST


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize(("seed", "choice_index"), [(0, 0), (42, 3), (TWO_64 - 1, 127)])
def test_derived_seed_is_eight_bytes_of_sha256(purpose, seed, choice_index):
    message = purpose.value.encode("ascii") + struct.pack("<QI", seed, choice_index)
    (expected,) = struct.unpack("<Q", hashlib.sha256(message).digest()[:8])
    assert derive_seed(purpose, seed=seed, choice_index=choice_index) == expected


@pytest.mark.parametrize("position", [0, 1, 8_191])
def test_draw_by_bits(position):
    stream, digest = 0xFEDCBA9876543210, 0x1111222233334444
    word = draw_word(stream, position=position, digest=digest)
    inner = slow_mix((stream + (position + 1) * 11400714819323198485) % TWO_64)
    assert word == slow_mix(inner ^ digest)
    assert unit(word) == (word // 2**11) / 2**53
    assert [below(word, bound) for bound in (1, 2, 97, 65_535 * 256)] == [
        word * bound // TWO_64 for bound in (1, 2, 97, 65_535 * 256)
    ]


def test_units_and_integers_stay_below_their_bounds():
    assert unit(0) == 0.0
    assert unit(TWO_64 - 1) == 1.0 - 2.0**-53
    assert below(0, 7) == 0
    assert below(TWO_64 - 1, 7) == 6


STREAMS = {
    "positions": lambda: [
        draw_word(derive_seed(Purpose.ACCEPT, seed=1, choice_index=0), position=i, digest=7)
        for i in range(DRAWS)
    ],
    "digests": lambda: [
        draw_word(derive_seed(Purpose.ACCEPT, seed=1, choice_index=0), position=3, digest=i)
        for i in range(DRAWS)
    ],
    "prefixes": lambda: [
        draw_word(99, position=2, digest=TokenPrefix((i // 200, i % 200)).digest(2))
        for i in range(DRAWS)
    ],
    "seeds": lambda: [
        draw_word(derive_seed(Purpose.DRAFT, seed=i, choice_index=0), position=3, digest=7)
        for i in range(DRAWS)
    ],
    "choices": lambda: [
        draw_word(derive_seed(Purpose.DRAFT, seed=8, choice_index=i), position=3, digest=7)
        for i in range(DRAWS)
    ],
}


def counts_of(cells: list[int], size: int) -> torch.Tensor:
    return torch.bincount(torch.tensor(cells), minlength=size).double()[None]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("bits", ["high", "low", "middle"])
def test_uniform(stream, bits):
    shift = {"high": 56, "low": 11, "middle": 34}[bits]
    cells = [word >> shift & 255 for word in STREAMS[stream]()]
    assert fit_p_value(counts_of(cells, 256), torch.full((1, 256), 1 / 256)) > 1e-3


@pytest.mark.parametrize("stream", STREAMS)
def test_neighbours_are_independent(stream):
    words = [word >> 60 for word in STREAMS[stream]()]
    cells = [a * 16 + b for a, b in pairwise(words)]
    assert fit_p_value(counts_of(cells, 256), torch.full((1, 256), 1 / 256)) > 1e-3


@pytest.mark.parametrize(("one", "other"), list(combinations(Purpose, 2)))
def test_purposes_are_independent(one, other):
    streams = [derive_seed(purpose, seed=17, choice_index=0) for purpose in (one, other)]
    prefix = TokenPrefix(range(DRAWS))
    cells = []
    for position in range(DRAWS):
        a, b = (
            draw_word(stream, position=position, digest=prefix.digest(position)) >> 60
            for stream in streams
        )
        cells.append(a * 16 + b)
    assert fit_p_value(counts_of(cells, 256), torch.full((1, 256), 1 / 256)) > 1e-3


def test_one_bit_of_input_changes_half_of_the_output():
    flips = [
        bin(mix(value) ^ mix(value ^ 1 << bit)).count("1")
        for value in range(1, 200)
        for bit in range(64)
    ]
    assert sum(flips) / len(flips) == pytest.approx(32.0, abs=0.2)
