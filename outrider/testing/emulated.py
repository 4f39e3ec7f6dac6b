"""A target and a draft that agree exactly as often as the prompt says.

Both are laws over 64 ids made from the digest of the prefix, so that a row costs microseconds
however long the prefix is; a forward sleeps as long as a device would take.

PEAKED laws leave no choice: output is the same at every temperature. The draft is right with the
stated acceptance, independently at each position; where it is wrong, the target's token is its
second to fifth choice with the shares in HITS.

SPREAD laws are for temperature 1: p = a·m + (1 − a)·r and q = a·m + (1 − a)·e, with m over four
ids, e on a single one that r has not, and r on the ids of m with the shares in HITS and elsewhere
with the rest. So Σ min(p, q) = a, and what is drawn after a rejection is the draft's next-best
with those shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

import torch

from outrider.prefix import TokenPrefix
from outrider.randomness import mix, unit
from outrider.testing.scripted import ScriptedModel

VOCABULARY_SIZE = 64
HITS = (0.16, 0.12, 0.065, 0.065)
"""How likely each next-best choice of the draft is once its first was rejected: 0.16 with one
alternative, 0.28 with two, 0.41 with four, as measured on the embedded pair."""
SHARED = (0.7, 0.15, 0.1, 0.05)
"""m."""
STEPS = 20
"""Acceptances are multiples of 1 ÷ STEPS."""
SPAN = 32
"""Ids that one unit of a prompt's turning points stands for."""
PROMPT_TOKENS = 16
TINY = 1e-17
"""Mass of a PEAKED draft's next-best choices, all together: there to be ranked, never drawn."""
NEVER = -1e4
"""Logit of what has no mass: a model's logits are finite."""


class Law(IntEnum):
    """How the mass of each row lies."""

    PEAKED = 0
    SPREAD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a prompt says: `acceptance`, but `meanwhile` where `since` to `until` ids come before.

    Acceptances are multiples of 0.05; `since` and `until` are multiples of 32, up to 2 016.
    """

    acceptance: float
    law: Law = Law.PEAKED
    meanwhile: float = 0.0
    since: int = 0
    until: int = 0

    def prompt(self, salt: int) -> list[int]:
        """PROMPT_TOKENS ids that say so. Another `salt` gives another output."""
        head = [
            round(self.acceptance * STEPS),
            round(self.meanwhile * STEPS),
            self.since // SPAN,
            self.until // SPAN,
            int(self.law),
        ]
        places = range(PROMPT_TOKENS - len(head))
        return [*head, *(salt // VOCABULARY_SIZE**place % VOCABULARY_SIZE for place in places)]


class Kind(NamedTuple):
    """What follows a prefix, up to the order of the ids. `acceptance` in steps.

    `rank`: which choice of the draft the target's token is under a PEAKED law, 0 its first; the
    last, 1 + len(HITS), is none of its best.
    """

    law: int
    acceptance: int
    rank: int


class EmulatedModel(ScriptedModel):
    """One of the two. Every sequence begins with a prompt of `Agreement`."""

    def __init__(
        self,
        row: Callable[[Kind], torch.Tensor],
        *,
        step_time_s: float = 0.0,
        row_time_s: float = 0.0,
        attended_time_s: float = 0.0,
    ) -> None:
        """`row`: target_row or draft_row. Times as of ScriptedModel."""
        super().__init__(
            _no_logits,
            vocabulary_size=VOCABULARY_SIZE,
            step_time_s=step_time_s,
            row_time_s=row_time_s,
            attended_time_s=attended_time_s,
        )
        self._row = row

    def _rows(self, prefix: TokenPrefix, first: int) -> torch.Tensor:
        lengths = range(first, len(prefix) + 1)
        if not lengths:
            return torch.empty(0, VOCABULARY_SIZE, dtype=torch.float64)
        words = [mix(prefix.digest(length)) for length in lengths]
        kinds = [_kind(prefix, length, word) for length, word in zip(lengths, words, strict=True)]
        orders = _PLACES[[word % len(_PLACES) for word in words]]
        return torch.stack([self._row(kind) for kind in kinds]).gather(1, orders)


@cache
def target_row(kind: Kind) -> torch.Tensor:
    """Logits of the target, float64 [64], at the places of m, e and r; PEAKED: at place 0."""
    if kind.law == Law.PEAKED:
        return _logits({0: 1.0})
    acceptance = kind.acceptance / STEPS
    probs = {place: acceptance * share for place, share in enumerate(SHARED)}
    for place, share in enumerate(HITS):
        probs[place] += (1.0 - acceptance) * share
    rest = (1.0 - acceptance) * (1.0 - sum(HITS)) / 2.0
    return _logits({**probs, 5: rest, 6: rest})


@cache
def draft_row(kind: Kind) -> torch.Tensor:
    """Logits of the draft, float64 [64], at the same places."""
    if kind.law == Law.PEAKED:
        others = list(range(1, VOCABULARY_SIZE))
        order = [*others[: kind.rank], 0, *others[kind.rank :]]
        many = len(others) - len(HITS)
        shares = [*HITS, *[(1.0 - sum(HITS)) / many] * many]
        return _logits(dict(zip(order, (1.0, *(TINY * one for one in shares)), strict=True)))
    acceptance = kind.acceptance / STEPS
    probs = {place: acceptance * share for place, share in enumerate(SHARED)}
    return _logits({**probs, 4: 1.0 - acceptance})


emulated_target = partial(EmulatedModel, target_row)
"""Makes a target; keywords as of EmulatedModel."""

emulated_draft = partial(EmulatedModel, draft_row)
"""Makes a draft. Where its q is cut, acceptance under SPREAD laws is less than stated."""


def _kind(prefix: TokenPrefix, length: int, word: int) -> Kind:
    acceptance, meanwhile, since, until, law = prefix.token_ids[:5]
    if since * SPAN <= length < until * SPAN:
        acceptance = meanwhile
    if law == Law.SPREAD or unit(mix(word ^ 1)) * STEPS < acceptance:
        return Kind(law, acceptance, 0)
    share = unit(mix(word ^ 2))
    return Kind(law, acceptance, 1 + sum(share >= bound for bound in accumulate(HITS)))


def _logits(probs: Mapping[int, float]) -> torch.Tensor:
    row = torch.zeros(VOCABULARY_SIZE, dtype=torch.float64)
    row[list(probs)] = torch.tensor(list(probs.values()), dtype=torch.float64)
    return row.log().clamp(min=NEVER)


def _places() -> torch.Tensor:
    """[orders, ids]: the place of each id; ids run through the places by an odd stride."""
    ids = torch.arange(VOCABULARY_SIZE)
    strides = range(1, VOCABULARY_SIZE, 2)
    orders = [(ids * stride + start) % VOCABULARY_SIZE for stride in strides for start in ids]
    return torch.stack(orders)


_PLACES = _places()


def _no_logits(token_ids: SequenceOf[int]) -> torch.Tensor:
    raise NotImplementedError
