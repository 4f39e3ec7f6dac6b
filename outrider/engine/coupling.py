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
from collections.abc import Iterator

import torch

from outrider.engine.columns import Columns
from outrider.engine.leaders import leading
from outrider.engine.token_hash import token_words
from outrider.randomness import MASK, gumbel, token_word

_LEADERS = 256
# Covers the rounding of both sides in float32.
_SLACK = 1.0001


def coupled_choices(
    probs: torch.Tensor, *, columns: Columns, couple_seed: int, position: int
) -> Iterator[int]:
    """The token id that each row of `probs` [rows, columns] chooses, row j at `position` + j.

    A row is looked at when its choice is asked for: behind the first difference none is.
    """
    for place, row in enumerate(probs, start=position):
        order = coupled_order(row, columns=columns, couple_seed=couple_seed, position=place)
        yield order[0]


def coupled_order(
    probs: torch.Tensor, *, columns: Columns, couple_seed: int, position: int, count: int = 1
) -> list[int]:
    """The `count` ids (at least 1) with the largest log p + g, best first, of `probs` [columns].

    Among equals the lower id comes first. Never an id with p = 0, so there may be fewer.
    """
    hashes = columns.hashes(probs.device)
    values, places = (one[0] for one in leading(probs[None], _leaders(probs, count)))
    missing = _missing_(token_words(hashes[places], stream_seed=couple_seed, position=position))
    least = _scores(values, missing).topk(min(count, values.numel())).values[-1]
    everything = values.numel() == probs.numel() or not bool(values[-1])
    if not everything:
        values = probs
        missing = _missing_(token_words(hashes, stream_seed=couple_seed, position=position))
    # 1 − u ≤ p·exp(−least), in units of 2^-53 and rounded towards more tokens.
    most = values * ((-least).exp() * (_SLACK * 2.0**53)).to(values.dtype)
    contends = (missing.to(values.dtype) <= most).nonzero()[:, 0]
    token_ids = columns.token_ids(places[contends] if everything else contends)
    scored = []
    for token_id, prob in zip(token_ids.tolist(), values[contends].tolist(), strict=True):
        if prob > 0.0:
            word = token_word(couple_seed, position=position, token_id=token_id)
            scored.append((-math.log(prob) - gumbel(word), token_id))
    return [token_id for _, token_id in sorted(scored)[:count]]


def _leaders(probs: torch.Tensor, count: int) -> int:
    return min(max(_LEADERS, count), probs.numel())


def _scores(probs: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
    """log p + g up to rounding, −inf where p is 0."""
    u = (((MASK >> 11) - missing).double() + 0.5) * 2.0**-53
    scores = probs.double().log() - (-u.log()).log()
    return scores.masked_fill(probs == 0.0, -torch.inf)


def _missing_(words: torch.Tensor) -> torch.Tensor:
    """2^53 − 1 less the 53 bits of u, in place: how far u is below 1."""
    return words.bitwise_not_().bitwise_right_shift_(11).bitwise_and_(MASK >> 11)
