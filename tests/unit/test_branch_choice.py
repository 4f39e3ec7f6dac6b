"""Beside which tokens side branches begin."""

from __future__ import annotations

from draft_service.alternatives import Alternative
from draft_service.branch_choice import MOST_BESIDE, Place, likeliest


def place(*weights: float, sent: tuple[int, ...] = ()) -> Place:
    alternatives = [Alternative(token_id, weight) for token_id, weight in enumerate(weights)]
    return Place(None, alternatives, set(sent))


def test_what_is_most_likely_to_be_needed_comes_first() -> None:
    places = [place(0.16, 0.12), place(0.16, 0.12), place(0.3)]
    chosen = likeliest(places, free=4, branches=16, acceptance=0.8)
    # 0.192 at the third place, then 0.16, 0.128 and 0.12.
    assert chosen == [(2, 0), (0, 0), (1, 0), (0, 1)]


def test_one_place_takes_no_more_than_its_share() -> None:
    full = place(*[0.1] * 8)
    for branches, beside in ((1, 1), (4, 1), (8, 2), (16, 4), (64, MOST_BESIDE)):
        chosen = likeliest([full, full], free=64, branches=branches, acceptance=1.0)
        assert len(chosen) == 2 * beside


def test_what_was_sent_is_not_chosen_again_and_what_grows_takes_room() -> None:
    places = [place(0.2, 0.1, sent=(0,)), place(0.2)]
    assert likeliest(places, free=8, branches=8, acceptance=0.5) == [(0, 1), (1, 0)]
    assert likeliest(places, free=1, branches=8, acceptance=0.5) == [(0, 1)]
    assert likeliest(places, free=0, branches=8, acceptance=0.5) == []
    assert likeliest([], free=8, branches=8, acceptance=0.5) == []


def test_what_is_hardly_ever_needed_is_left_out() -> None:
    assert likeliest([place(0.5, 0.04)], free=8, branches=8, acceptance=0.5) == [(0, 0)]
    # However small all are: only how they compare counts.
    tiny = [place(5e-18, 4e-18, 3e-19)]
    assert likeliest(tiny, free=8, branches=16, acceptance=0.5) == [(0, 0), (0, 1)]
    # Far down the chain.
    chain = [place(0.3)] * 12
    assert [at for at, _ in likeliest(chain, free=20, branches=20, acceptance=0.5)] == [0, 1, 2, 3]
