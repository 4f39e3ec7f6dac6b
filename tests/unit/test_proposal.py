"""Draft tokens: what is reported is what was drawn from."""

from __future__ import annotations

import pytest
import torch

from draft_service.proposal import (
    CandidateCut,
    DraftedToken,
    DraftRule,
    Proposer,
    cut_law,
)
from outrider.draft_law import POINT_MASS, CutLaw
from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions
from outrider.errors import NumericalFailure
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, below, derive_seed, draw_word

SIZE = 100
LOGITS = 2.0 * torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
PREFIX = TokenPrefix([7, 8, 9])
DRAFT_SEED = derive_seed(Purpose.DRAFT, seed=11, choice_index=0)


def drawn(
    logits: torch.Tensor = LOGITS,
    options: SamplingOptions | None = None,
    *,
    columns: Columns | None = None,
    prefix: TokenPrefix = PREFIX,
    derived_seed: int | None = DRAFT_SEED,
    vocabulary_size: int = SIZE,
    cut: CandidateCut | None = None,
) -> DraftedToken:
    proposer = Proposer(
        options or SamplingOptions(),
        (columns or Columns(logits.shape[0])).below(vocabulary_size),
        prompt_length=1,
        derived_seed=derived_seed,
        cut=cut or CandidateCut(),
    )
    (token,) = proposer.tokens([logits], [prefix])
    return token


def law_of(token: DraftedToken) -> CutLaw:
    assert isinstance(token.law, CutLaw)
    return token.law


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_token_comes_from_the_reported_integers(dtype):
    logits = LOGITS.to(dtype)
    prefix = TokenPrefix([7])
    for _ in range(200):
        token = drawn(logits, prefix=prefix)
        position = len(prefix)
        word = draw_word(DRAFT_SEED, position=position, digest=prefix.digest(position))
        law = law_of(token)
        number = below(word, sum(law.weights))
        # Looked up the long way: each candidate as often as its weight says.
        before = 0
        owners = []
        for candidate, weight in zip(law.token_ids, law.weights, strict=True):
            if before <= number < before + weight:
                owners.append(candidate)
            before += weight
        assert owners == [token.token_id]
        prefix.extend((token.token_id,))


def test_the_law_is_the_most_likely_tokens_up_to_the_mass():
    probs = LOGITS.softmax(dim=0).double()
    law = cut_law(probs, columns=Columns(SIZE), cut=CandidateCut(candidates=40, mass=0.8))
    order = sorted(range(SIZE), key=lambda token_id: (-probs[token_id], token_id))
    assert list(law.token_ids) == order[: len(law.token_ids)]
    kept = probs[list(law.token_ids)]
    assert float(kept.sum()) >= 0.8 > float(kept[:-1].sum())
    assert list(law.weights) == [max(1, round(65535 * float(prob))) for prob in kept]


@pytest.mark.parametrize("candidates", [1, 5, 40, 256])
def test_no_more_candidates_than_asked_for(candidates):
    probs = torch.full((SIZE,), 1.0 / SIZE)
    cut = CandidateCut(candidates=candidates, mass=1.0)
    law = cut_law(probs, columns=Columns(SIZE), cut=cut)
    assert list(law.token_ids) == list(range(min(candidates, SIZE)))
    assert set(law.weights) == {655}


def test_small_weights_are_one_and_impossible_tokens_are_left_out():
    probs = torch.tensor([0.0, 1.0 - 2e-7, 1e-7, 1e-7, 0.0])
    law = cut_law(probs, columns=Columns(5), cut=CandidateCut(mass=1.0))
    assert law == CutLaw((1, 2, 3), (65535, 1, 1))


@pytest.mark.parametrize(
    "arguments", [{"candidates": 0}, {"candidates": 257}, {"mass": 0.0}, {"mass": 1.1}]
)
def test_a_cut_out_of_range_is_refused(arguments):
    with pytest.raises(ValueError, match="must be"):
        CandidateCut(**arguments)


@pytest.mark.parametrize(
    ("options", "derived_seed"),
    [
        (SamplingOptions(temperature=0.0), DRAFT_SEED),
        (SamplingOptions(temperature=1e-12), DRAFT_SEED),
        (SamplingOptions(), None),
    ],
)
def test_greedy_drafts_are_point_masses_on_the_lowest_best_id(options, derived_seed):
    logits = torch.tensor([0.0, 2.0, 1.0, 2.0])
    token = drawn(logits, options, derived_seed=derived_seed)
    assert token == DraftedToken(1)
    assert token.law is POINT_MASS


@pytest.mark.parametrize("options", [SamplingOptions(), SamplingOptions(temperature=0.0)])
def test_ids_beyond_the_vocabulary_are_never_proposed(options):
    logits = torch.zeros(SIZE)
    logits[60:] = 30.0
    token = drawn(logits, options, vocabulary_size=60)
    assert token.token_id < 60
    assert token.law is POINT_MASS or max(law_of(token).token_ids) < 60


def test_a_subset_of_columns_gives_ids_not_columns():
    columns = Columns(1000, torch.tensor([3, 50, 700, 999]))
    token = drawn(torch.zeros(4), columns=columns, vocabulary_size=999, cut=CandidateCut(mass=1.0))
    assert list(law_of(token).token_ids) == [3, 50, 700]
    assert token.token_id in law_of(token).token_ids


@pytest.mark.parametrize(
    ("columns", "vocabulary_size", "left"),
    [
        (Columns(10), 12, 10),
        (Columns(10), 10, 10),
        (Columns(10), 4, 4),
        (Columns(10, torch.tensor([0, 4, 9])), 9, 2),
        (Columns(10, torch.tensor([0, 4, 9])), 4, 1),
        (Columns(10, torch.tensor([0, 4, 9])), 10, 3),
    ],
)
def test_columns_below_a_vocabulary_size(columns, vocabulary_size, left):
    below_it = columns.below(vocabulary_size)
    assert columns.below(vocabulary_size) is below_it
    assert len(below_it) == left
    ids = below_it.token_ids(torch.arange(left))
    assert torch.equal(ids, columns.token_ids(torch.arange(len(columns)))[:left])
    assert bool((ids < vocabulary_size).all())


def test_draft_sees_the_penalties_of_its_own_prefix():
    prefix = TokenPrefix([7, 3])
    options = SamplingOptions(temperature=0.0, presence_penalty=1.0)
    logits = torch.zeros(5)
    logits[3] = 0.5
    assert drawn(logits, options, prefix=TokenPrefix([3])).token_id == 3
    assert drawn(logits, options, prefix=prefix).token_id == 0


@pytest.mark.parametrize("temperature", [0.3, 1.5])
def test_shaping_the_draft_as_the_target_raises_acceptance(temperature):
    generator = torch.Generator().manual_seed(3)
    target = 2.0 * torch.randn(64, 30, generator=generator, dtype=torch.float64)
    draft = target + 0.7 * torch.randn(64, 30, generator=generator, dtype=torch.float64)
    p = (target / temperature).softmax(dim=1)

    def acceptance(draft_temperature: float) -> float:
        q = (draft / draft_temperature).softmax(dim=1)
        columns, cut = Columns(30), CandidateCut()
        total = 0.0
        for row in range(64):
            law = cut_law(q[row], columns=columns, cut=cut)
            weights = torch.tensor(law.weights) / sum(law.weights)
            total += float(torch.minimum(p[row, list(law.token_ids)], weights).sum())
        return total / 64

    assert acceptance(temperature) > acceptance(1.0)
    law = law_of(drawn(draft[0], SamplingOptions(temperature=temperature)))
    assert list(law.weights) == list(
        cut_law(
            (draft[0] / temperature).softmax(dim=0), columns=Columns(30), cut=CandidateCut()
        ).weights
    )


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("options", [SamplingOptions(), SamplingOptions(temperature=0.0)])
def test_a_row_that_is_no_law_is_an_error(bad, options):
    logits = LOGITS.clone()
    logits[3] = bad
    with pytest.raises(NumericalFailure):
        drawn(logits, options)


@pytest.mark.parametrize("rule", DraftRule)
@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(),
        SamplingOptions(temperature=0.0),
        SamplingOptions(top_p=0.7, min_p=0.01),
        SamplingOptions(repetition_penalty=1.8, presence_penalty=1.0),
    ],
    ids=["plain", "greedy", "top_p", "penalties"],
)
def test_tokens_drawn_together_are_those_drawn_alone(options, rule):
    rows = 2.0 * torch.randn(5, SIZE, generator=torch.Generator().manual_seed(3))
    prefixes = [TokenPrefix([7, place, 3 * place][: place + 1]) for place in range(5)]
    proposer = Proposer(
        options,
        Columns(SIZE),
        prompt_length=1,
        derived_seed=DRAFT_SEED,
        cut=CandidateCut(),
        rule=rule,
    )
    together = proposer.tokens(list(rows), prefixes, alternatives=3)
    alone = [
        proposer.tokens([row], [prefix], alternatives=3)[0]
        for row, prefix in zip(rows, prefixes, strict=True)
    ]
    assert together == alone
    for one, other in zip(together, alone, strict=True):
        assert [each.token_id for each in one.alternatives] == [
            each.token_id for each in other.alternatives
        ]
        assert len(one.alternatives) == 3 or options.top_p < 1.0
        assert one.token_id not in [each.token_id for each in one.alternatives]


@pytest.mark.parametrize("rule", DraftRule)
def test_no_tokens_are_drawn_from_no_logits(rule):
    proposer = Proposer(
        SamplingOptions(),
        Columns(SIZE),
        prompt_length=1,
        derived_seed=DRAFT_SEED,
        cut=CandidateCut(),
        rule=rule,
    )
    assert proposer.tokens([], []) == []
