"""The losses are those of the whole distributions wherever all of p is known, and never above."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.distill.losses import (
    LOSSES,
    TINY,
    Laws,
    forward_kl,
    reverse_kl,
    total_variation,
)

COLUMNS = 12


def whole(name: str, target_probs: torch.Tensor, draft_probs: torch.Tensor) -> torch.Tensor:
    """The loss by its definition, [rows]; no probability of the target counts below TINY."""
    if name == "total-variation":
        return (target_probs - draft_probs).abs().sum(dim=1) / 2
    target_probs = target_probs.clamp(min=TINY)
    one, other = target_probs, draft_probs
    if name == "reverse-kl":
        one, other = draft_probs, target_probs
    return (one * (one.log() - other.log())).sum(dim=1)


def random_rows(seed: int, rows: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a draft, probabilities of a target, [rows, COLUMNS]."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.0 * torch.randn(rows, COLUMNS, generator=generator)
    target = (2.0 * torch.randn(rows, COLUMNS, generator=generator)).softmax(dim=1)
    return logits, target


def named(target: torch.Tensor, count: int) -> Laws:
    """The `count` most likely columns of each row."""
    probs, columns = target.topk(count, dim=1)
    return Laws(columns, probs)


def rounding(probs: torch.Tensor, laws: Laws) -> torch.Tensor:
    """What float32 may add to the logarithm of what the named ids leave of 1, [rows]."""
    named_mass = probs.double().gather(1, laws.columns).sum(dim=1)
    return 2e-4 + COLUMNS * torch.finfo(torch.float32).eps / (1.0 - named_mass).clamp(min=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@example(seed=7482)  # an id that the target all but excludes
@given(seed=st.integers(0, 10_000))
def test_a_law_that_names_all_has_the_loss_of_the_definition(name: str, seed: int) -> None:
    logits, target = random_rows(seed)
    loss = LOSSES[name](named(target, COLUMNS), logits)
    torch.testing.assert_close(
        loss, whole(name, target, logits.softmax(dim=1)), atol=2e-4, rtol=1e-3
    )


@pytest.mark.parametrize("name", LOSSES)
@example(seed=513, count=COLUMNS - 1)  # what is left of p is 3e-5
@given(seed=st.integers(0, 10_000), count=st.integers(1, COLUMNS - 1))
def test_taking_the_rest_for_one_never_adds_to_the_loss(name: str, seed: int, count: int) -> None:
    logits, target = random_rows(seed)
    draft = logits.softmax(dim=1)
    laws = named(target, count)
    loss = LOSSES[name](laws, logits)
    slack = rounding(target, laws) + rounding(draft, laws)
    assert bool((loss <= whole(name, target, draft) + slack).all())
    assert bool((loss >= -slack).all())


@pytest.mark.parametrize("loss", [forward_kl, reverse_kl, total_variation])
def test_steps_along_the_gradient_lead_to_the_target(loss: object) -> None:
    logits, target = random_rows(3)
    laws = named(target, 4)
    logits.requires_grad_(True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        LOSSES[name_of(loss)](laws, logits).mean().backward()
        optimizer.step()
    found = logits.detach().softmax(dim=1).gather(1, laws.columns)
    torch.testing.assert_close(found, laws.probs, atol=0.03, rtol=0.0)


def name_of(loss: object) -> str:
    """What a loss is called."""
    return next(name for name, one in LOSSES.items() if one is loss)


@pytest.mark.parametrize("name", LOSSES)
def test_ids_that_the_draft_lacks_say_nothing(name: str) -> None:
    logits, target = random_rows(4)
    laws = named(target, 4)
    padded = Laws(
        torch.cat([laws.columns, torch.zeros(5, 3, dtype=torch.int64)], dim=1),
        torch.cat([laws.probs, torch.zeros(5, 3)], dim=1),
    )
    torch.testing.assert_close(LOSSES[name](padded, logits), LOSSES[name](laws, logits))
