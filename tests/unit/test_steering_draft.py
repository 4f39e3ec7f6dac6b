"""What docs/security.md says that a hostile draft can and cannot do, each claim as a test."""

from __future__ import annotations

from coordinator.honesty import LARGEST_Z, Honesty
from outrider.draft_law import CutLaw
from outrider.prefix import EMPTY_DIGEST, extend_digest
from outrider.randomness import below, draw_word
from target_service.draft_check import InvalidReason, ProposedToken, check_drafts
from target_service.rejection import acceptance_probability

SEED, LENGTH = 7, 400
WEIGHTS = tuple(max(1, round(9_000 * 0.86**place)) for place in range(40))
"""The target's own law, which a draft that has the target's weights can compute."""
P = tuple(weight / sum(WEIGHTS) for weight in WEIGHTS)
WANTED = 20
"""What the draft wants to be said, at every place; its probability is below 0.01."""


def steered(word: int) -> CutLaw:
    """The target's own law, listed in such an order that the draw gives the wanted token."""
    drawn, before, after, reached = below(word, sum(WEIGHTS)), [], [], 0
    for token_id, weight in enumerate(WEIGHTS):
        if token_id == WANTED:
            continue
        if reached + weight <= drawn:
            before.append(token_id)
            reached += weight
        else:
            after.append(token_id)
    order = (*before, WANTED, *after)
    return CutLaw(order, tuple(WEIGHTS[token_id] for token_id in order))


def test_an_order_of_candidates_can_steer_what_is_said_unseen() -> None:
    """Neither the recomputation nor z tells: the law is true, its order is not by chance."""
    assert P[WANTED] < 0.01
    honesty, digest = Honesty(), EMPTY_DIGEST
    drafts = []
    for position in range(LENGTH):
        law = steered(draw_word(SEED, position=position, digest=digest))
        drafts.append(ProposedToken(WANTED, law))
        digest = extend_digest(digest, WANTED)
        assert acceptance_probability(P[WANTED], law, WANTED) > 0.999
        honesty.judged(sum(map(min, P, P)), accepted=True)
    fault = check_drafts(
        drafts,
        position=0,
        digest=EMPTY_DIGEST,
        draft_seed=SEED,
        vocabulary_size=len(P),
        greedy=False,
    )
    assert fault is None
    assert honesty.trusted


def test_a_token_that_was_not_drawn_is_found() -> None:
    law = CutLaw(tuple(range(len(P))), WEIGHTS)
    word = draw_word(SEED, position=0, digest=EMPTY_DIGEST)
    other = (law.draw(word) + 1) % len(P)
    fault = check_drafts(
        [ProposedToken(other, law)],
        position=0,
        digest=EMPTY_DIGEST,
        draft_seed=SEED,
        vocabulary_size=len(P),
        greedy=False,
    )
    assert fault is not None
    assert fault.reason is InvalidReason.NOT_RECOMPUTED


def test_a_token_that_the_target_cannot_say_is_never_accepted() -> None:
    law = CutLaw((WANTED,), (1,))
    assert acceptance_probability(0.0, law, WANTED) == 0


def test_laws_that_fit_worse_than_they_say_are_found() -> None:
    """A draft that always has its token accepted, by laws that should not fit so well."""
    honesty, tokens = Honesty(), 0
    while honesty.trusted:
        tokens += 1
        honesty.judged(0.7, accepted=True)
    assert tokens < 200
    assert honesty.z > LARGEST_Z
