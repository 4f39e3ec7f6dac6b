"""Everything that a draft may get wrong is found, at its position, with its reason."""

from __future__ import annotations

import pytest

from outrider.draft_law import POINT_MASS, CutLaw, DraftLaw
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from target_service.draft_check import InvalidDraft, InvalidReason, ProposedToken, check_drafts

SIZE = 50
BASE = 4
COMMITTED = (1, 2, 3, 4)
DRAFT_SEED = derive_seed(Purpose.DRAFT, seed=5, choice_index=2)
LAW = CutLaw((9, 30, 2), (40_000, 1, 65_535))


def honest(length: int) -> list[ProposedToken]:
    prefix = TokenPrefix(COMMITTED)
    drafts = []
    for position in range(BASE, BASE + length):
        word = draw_word(DRAFT_SEED, position=position, digest=prefix.digest(position))
        drafts.append(ProposedToken(LAW.draw(word), LAW))
        prefix.extend((drafts[-1].token_id,))
    return drafts


def checked(drafts: list[ProposedToken], *, greedy: bool = False) -> InvalidDraft | None:
    return check_drafts(
        drafts,
        position=BASE,
        digest=TokenPrefix(COMMITTED).digest(BASE),
        draft_seed=DRAFT_SEED,
        vocabulary_size=SIZE,
        greedy=greedy,
    )


def with_law(law: DraftLaw | None, token_id: int | None = None) -> list[ProposedToken]:
    """Four honest drafts, the third of which has another law or another token."""
    drafts = honest(4)
    chosen = drafts[2].token_id if token_id is None else token_id
    return [*drafts[:2], ProposedToken(chosen, law), drafts[3]]


@pytest.mark.parametrize("length", [0, 1, 4, 60])
def test_honest_drafts_pass(length):
    assert checked(honest(length)) is None


def test_point_masses_are_not_drawn_again():
    assert checked([ProposedToken(token_id, POINT_MASS) for token_id in (3, 3, 49)]) is None


def test_greedy_needs_no_law_but_checks_one_that_is_there():
    assert checked([ProposedToken(3, None)], greedy=True) is None
    bad = ProposedToken(3, CutLaw((3,), (0,)))
    assert checked([bad], greedy=True) == InvalidDraft(BASE, InvalidReason.WEIGHT_OUT_OF_RANGE)


TOKEN = honest(3)[2].token_id
OTHER = next(token_id for token_id in LAW.token_ids if token_id != TOKEN)
MANY = tuple(range(257))


@pytest.mark.parametrize(
    ("law", "token_id", "reason"),
    [
        (None, None, "LAW_MISSING"),
        (CutLaw((TOKEN, 1), (5,)), None, "LENGTHS_DIFFER"),
        (CutLaw((TOKEN,), ()), None, "LENGTHS_DIFFER"),
        (CutLaw((), (5,)), None, "LENGTHS_DIFFER"),
        (CutLaw((), ()), None, "TOKEN_NOT_IN_LAW"),
        (CutLaw(MANY, (1,) * 257), None, "TOO_MANY_CANDIDATES"),
        (CutLaw((TOKEN, SIZE), (5, 5)), None, "ID_OUT_OF_RANGE"),
        (CutLaw((TOKEN, 2**32 - 1), (5, 5)), None, "ID_OUT_OF_RANGE"),
        (CutLaw((TOKEN,), (5,)), SIZE, "ID_OUT_OF_RANGE"),
        (POINT_MASS, SIZE, "ID_OUT_OF_RANGE"),
        (POINT_MASS, 2**32 - 1, "ID_OUT_OF_RANGE"),
        (CutLaw((TOKEN, 1, TOKEN), (5, 5, 5)), None, "DUPLICATE_ID"),
        (CutLaw((TOKEN, 1, 1), (5, 5, 5)), None, "DUPLICATE_ID"),
        (CutLaw((TOKEN,), (0,)), None, "WEIGHT_OUT_OF_RANGE"),
        (CutLaw((TOKEN, 1), (5, 0)), None, "WEIGHT_OUT_OF_RANGE"),
        (CutLaw((TOKEN,), (65_536,)), None, "WEIGHT_OUT_OF_RANGE"),
        (CutLaw((TOKEN,), (2**32 - 1,)), None, "WEIGHT_OUT_OF_RANGE"),
        (CutLaw((OTHER, 1), (5, 5)), None, "TOKEN_NOT_IN_LAW"),
        (LAW, OTHER, "NOT_RECOMPUTED"),
    ],
)
def test_a_fault_is_named_at_its_position(law, token_id, reason):
    assert checked(with_law(law, token_id)) == InvalidDraft(BASE + 2, InvalidReason(reason))


def test_256_candidates_are_allowed():
    law = CutLaw(tuple(range(256)), (1,) * 256)
    digest = TokenPrefix(COMMITTED).digest(BASE)
    token_id = law.draw(draw_word(DRAFT_SEED, position=BASE, digest=digest))
    invalid = check_drafts(
        [ProposedToken(token_id, law)],
        position=BASE,
        digest=digest,
        draft_seed=DRAFT_SEED,
        vocabulary_size=256,
        greedy=False,
    )
    assert invalid is None


def test_another_seed_or_prefix_gives_other_tokens():
    drafts = honest(8)
    for digest, seed in (
        (TokenPrefix((1, 2, 3, 5)).digest(BASE), DRAFT_SEED),
        (TokenPrefix(COMMITTED).digest(BASE), DRAFT_SEED + 1),
    ):
        invalid = check_drafts(
            drafts,
            position=BASE,
            digest=digest,
            draft_seed=seed,
            vocabulary_size=SIZE,
            greedy=False,
        )
        assert invalid is not None
        assert invalid.reason is InvalidReason.NOT_RECOMPUTED
