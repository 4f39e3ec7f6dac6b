"""How far each peek of law 4 moves the law of the token it is about, on the tables of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch

from draft_service.proposal import cut_law
from outrider.draft_law import CutLaw
from outrider.engine.columns import Columns
from target_service.rejection import acceptance_probability, residual
from tests.statistical.peeking_services import CUT, LEAST_LIKELY, OTHER, PAIR, SLOW

SIZE = PAIR.vocabulary_size
CONTEXTS = list(product(range(SIZE), repeat=2))


def p_after(context: tuple[int, int]) -> torch.Tensor:
    return PAIR.target[context].softmax(dim=0)


def law_after(context: tuple[int, int], table: torch.Tensor = PAIR.draft) -> CutLaw:
    return cut_law(table[context].softmax(dim=0), columns=Columns(SIZE), cut=CUT)


def draws(law: CutLaw) -> Iterator[tuple[int, float]]:
    total = sum(law.weights)
    return ((x, weight / total) for x, weight in zip(law.token_ids, law.weights, strict=True))


def judged(p: torch.Tensor, law: CutLaw, x: int) -> torch.Tensor:
    """What comes out at the place of a token `x` that is judged as one drawn from `law`."""
    accept = float(acceptance_probability(float(p[x]), law, x))
    left = residual(p, law, x)
    out = (1.0 - accept) * left / left.sum()
    out[x] += accept
    return out


def mixed(law: CutLaw, outcome: Callable[[int], torch.Tensor]) -> torch.Tensor:
    """What comes out where each drawn token has an outcome."""
    return torch.stack([q * outcome(x) for x, q in draws(law)]).sum(dim=0)


def honest(context: tuple[int, int]) -> torch.Tensor:
    p, law = p_after(context), law_after(context)
    return mixed(law, lambda x: judged(p, law, x))


def unlikely_dropped(context: tuple[int, int]) -> torch.Tensor:
    p, law = p_after(context), law_after(context)
    probs = dict(draws(law))
    return mixed(law, lambda x: judged(p, law, x) if probs[x] >= LEAST_LIKELY else p)


def bonus_compared(context: tuple[int, int]) -> torch.Tensor:
    """The bonus is taken where it is the waiting token; else that token is judged after all."""
    p, law = p_after(context), law_after(context)

    def outcome(x: int) -> torch.Tensor:
        same = torch.zeros(SIZE, dtype=torch.float64)
        same[x] = p[x]
        return same + (1.0 - p[x]) * judged(p, law, x)

    return mixed(law, outcome)


def guess_judged(context: tuple[int, int]) -> torch.Tensor:
    """The likeliest other token is judged in the place of the drawn one."""
    p, law = p_after(context), law_after(context)
    order = PAIR.draft[context].sort(descending=True).indices.tolist()
    return mixed(law, lambda x: judged(p, law, next(y for y in order if y != x)))


def replaced(context: tuple[int, int]) -> torch.Tensor:
    """A later draw takes the place of the first, unless it is the same token."""
    p, law, later = p_after(context), law_after(context), law_after(context, OTHER.draft)
    return mixed(
        law,
        lambda x: mixed(later, lambda y: judged(p, law, x) if x == y else judged(p, later, y)),
    )


def sent_with_a_follower_only(context: tuple[int, int]) -> torch.Tensor:
    """What the draft is slow to go on after has no follower in time."""
    p, law = p_after(context), law_after(context)
    return mixed(law, lambda x: p if x == SLOW else judged(p, law, x))


def distance(faulty: Callable[[tuple[int, int]], torch.Tensor]) -> float:
    """From the target's law, averaged over all contexts."""
    moved = [float((faulty(each) - p_after(each)).abs().sum()) / 2 for each in CONTEXTS]
    return sum(moved) / len(moved)


@pytest.mark.parametrize(
    "faulty",
    [unlikely_dropped, bonus_compared, guess_judged, replaced, sent_with_a_follower_only],
)
def test_a_peek_moves_the_law_by_two_percent(faulty):
    assert distance(faulty) >= 0.02


def test_without_a_peek_the_law_does_not_move():
    assert distance(honest) < 1e-12
