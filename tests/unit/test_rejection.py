"""The rule at its edges: ties, empty residuals, stops, bonuses."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from outrider.draft_law import POINT_MASS, CutLaw, DraftLaw
from outrider.prefix import EMPTY_DIGEST
from target_service.draft_check import ProposedToken
from target_service.judgement import Judgement
from target_service.rejection import (
    acceptance_probability,
    accepts,
    draw_from,
    judge,
    residual,
)

LAST_WORD = 2**64 - 1


def judged(
    probs: list[list[float]] | torch.Tensor,
    drafts: list[ProposedToken],
    *,
    seed: int = 0,
    want_bonus: bool = True,
    stop_token_ids: tuple[int, ...] = (),
) -> Judgement:
    if not isinstance(probs, torch.Tensor):
        probs = torch.tensor(probs, dtype=torch.float64)
    return judge(
        probs,
        drafts,
        seed=seed,
        choice_index=0,
        position=5,
        digest=EMPTY_DIGEST,
        want_bonus=want_bonus,
        stop_token_ids=stop_token_ids,
    )


def even(*token_ids: int) -> CutLaw:
    return CutLaw(token_ids, (1,) * len(token_ids))


@pytest.mark.parametrize("drafted", [None, POINT_MASS, CutLaw((0, 1, 2), (4, 1, 1))])
def test_every_possible_token_appears(drafted):
    rows = [[0.34, 0.33, 0.33]] * 2
    drafts = [ProposedToken(0, drafted)] if drafted else []
    outputs = {judged(rows, drafts, seed=seed).output_token_ids[0] for seed in range(300)}
    assert outputs == {0, 1, 2}


def test_p_zero_is_always_rejected_whatever_the_draft_says():
    rare = CutLaw((0, 1), (65_535, 1))
    for u in (0, 1 << 11, LAST_WORD):
        assert not accepts(u, acceptance_probability(0.0, rare, 1))
        assert not accepts(u, acceptance_probability(0.0, POINT_MASS, 1))
    rows = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    for seed in range(50):
        assert judged(rows, [ProposedToken(1, rare)], seed=seed) == Judgement(0, [0])


def test_p_at_least_q_is_always_accepted():
    law = CutLaw((0, 1), (1, 2))
    assert acceptance_probability(0.5, law, 0) == 1
    assert accepts(LAST_WORD, Fraction(1))
    # Just below q the last u is the first to fail.
    below_q = Fraction(2**53 - 1, 2**53)
    assert not accepts(LAST_WORD, below_q)
    assert accepts(LAST_WORD - (1 << 11), below_q)


def test_acceptance_is_strict_at_the_border():
    assert accepts(0, Fraction(1, 2**60))
    assert not accepts(1 << 63, Fraction(1, 2))
    assert accepts((1 << 63) - 1, Fraction(1, 2))


def test_smallest_probabilities_are_told_from_zero():
    tiny = 5e-324
    assert acceptance_probability(tiny, even(0, 1), 0) == Fraction(tiny) * 2
    assert accepts(0, acceptance_probability(tiny, even(0, 1), 0))


def test_empty_residual_falls_back_to_p():
    p = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    for law in (even(0, 1), CutLaw((1, 0), (65_535, 65_535))):
        left = residual(p, law, 0)
        assert torch.equal(left, p)
        assert draw_from(left, 0) == 0
        assert draw_from(left, LAST_WORD) == 1
    one = torch.tensor([0.0, 1.0])
    assert torch.equal(residual(one.double(), POINT_MASS, 1), one.double())


def test_residual_of_a_law_takes_q_away_and_leaves_p_alone():
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    left = residual(p, CutLaw((2, 0), (3, 1)), 2)
    torch.testing.assert_close(left, torch.tensor([0.25, 0.3, 0.0], dtype=torch.float64))
    assert p.tolist() == [0.5, 0.3, 0.2]


def test_residual_of_a_point_mass_is_p_without_the_token():
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    assert residual(p, POINT_MASS, 1).tolist() == [0.5, 0.0, 0.2]
    assert p.tolist() == [0.5, 0.3, 0.2]


@pytest.mark.parametrize("law", [POINT_MASS, CutLaw((3, 1), (9, 1)), None])
def test_no_token_without_probability_is_ever_output(law):
    probs = torch.tensor([[0.0, 0.4, 0.0, 0.0, 0.6, 0.0]] * 2)
    for seed in range(200):
        assert set(judged(probs, [ProposedToken(3, law)], seed=seed).output_token_ids) <= {1, 4}


def test_draws_at_both_ends_have_mass():
    mass = torch.tensor([0.0, 0.0, 0.1, 0.0, 0.3, 0.0, 0.0], dtype=torch.float64)
    assert draw_from(mass, 0) == 2
    assert draw_from(mass, LAST_WORD) == 4
    # A total at which (1 − 2^-53) · total rounds to the total.
    rounding = torch.tensor([1.0 + 2.0**-52, 0.0], dtype=torch.float64)
    assert draw_from(rounding, LAST_WORD) == 0


def test_draws_follow_the_cumulative_distribution():
    mass = torch.tensor([1.0, 0.0, 2.0, 1.0], dtype=torch.float64)
    steps = [draw_from(mass, step << 56) for step in range(256)]
    assert [steps.count(token_id) for token_id in range(4)] == [64, 0, 128, 64]
    assert steps == sorted(steps)


def certain(*token_ids: int) -> torch.Tensor:
    """Rows in which one token is certain."""
    return torch.eye(8, dtype=torch.float64)[list(token_ids)]


def test_full_acceptance_brings_a_bonus_where_it_is_wanted():
    drafts = [ProposedToken(1, even(1, 2)), ProposedToken(4, POINT_MASS)]
    rows = certain(1, 4, 6)
    assert judged(rows, drafts) == Judgement(2, [1, 4, 6])
    assert judged(rows, drafts, want_bonus=False) == Judgement(2, [1, 4])
    assert judged(rows[:2], drafts, want_bonus=False) == Judgement(2, [1, 4])


def test_a_rejection_ends_the_round_with_the_recovered_token():
    drafts = [ProposedToken(1, even(1, 2)), ProposedToken(4, even(4, 5)), ProposedToken(6, None)]
    assert judged(certain(1, 3, 6, 7), drafts) == Judgement(1, [1, 3])


def test_no_drafts_is_plain_decoding():
    assert judged(certain(5), []) == Judgement(0, [5])


@pytest.mark.parametrize("want_bonus", [True, False])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_an_accepted_stop_id_ends_the_round(place, want_bonus):
    ids = [1, 2, 3, 4]
    drafts = [ProposedToken(token_id, even(token_id)) for token_id in ids]
    judgement = judged(
        certain(*ids, 5), drafts, want_bonus=want_bonus, stop_token_ids=(ids[place], 5)
    )
    assert judgement == Judgement(place + 1, ids[: place + 1])


def test_greedy_rows_accept_the_best_token_under_any_law():
    laws: list[DraftLaw | None] = [None, POINT_MASS, CutLaw((0, 3), (65_535, 1))]
    for law in laws:
        for seed in range(20):
            right = judged(certain(3, 3), [ProposedToken(3, law)], seed=seed)
            assert right == Judgement(1, [3, 3])
            wrong = judged(certain(2, 3), [ProposedToken(3, law)], seed=seed)
            assert wrong == Judgement(0, [2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_verdict_is_a_pure_function(dtype):
    probs = torch.rand(4, 30, generator=torch.Generator().manual_seed(0)).to(dtype)
    probs /= probs.sum(dim=1, keepdim=True)
    before = probs.clone()
    drafts = [ProposedToken(token_id, even(*range(20))) for token_id in (3, 8, 15)]
    for seed in range(30):
        assert judged(probs, drafts, seed=seed) == judged(probs.clone(), drafts, seed=seed)
    assert torch.equal(probs, before)
    assert len({tuple(judged(probs, drafts, seed=seed).output_token_ids) for seed in range(30)}) > 9


def test_tiny_rounding_between_p_and_q_stays_finite():
    logits = torch.tensor([[0.0, -1e-3, -2e-3, -9.0]] * 2)
    p = (logits / 1e-3).softmax(dim=1)
    law = CutLaw((0, 1, 2), tuple(max(1, round(65535 * float(prob))) for prob in p[0, :3]))
    for token_id in law.token_ids:
        left = residual(p[0].double(), law, token_id)
        assert bool(left.isfinite().all())
        assert bool((left >= 0.0).all())
        assert bool((left > 0.0).any())
        assert draw_from(left, LAST_WORD) in (0, 1, 2)
