"""Which places are copied depends on what comes before them, never on what a model drew there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from draft_service.draft_job import DraftTerms
from outrider.drafter import Drafter
from outrider.testing.scripted import ScriptedModel
from tests.unit.copies.by_hand import GREEDY, SAMPLED, Drafts

SIZE = 4
IDS = st.integers(0, SIZE - 1)
TABLES = st.lists(st.floats(-2.0, 2.0), min_size=SIZE * SIZE, max_size=SIZE * SIZE)


def by_table(table: Sequence[float]) -> Callable[[Sequence[int]], Sequence[float]]:
    """The law depends on the last id."""
    return lambda token_ids: table[SIZE * token_ids[-1] :][:SIZE]


def chain(terms: DraftTerms, table: Sequence[float], text: list[int]) -> list[tuple[int, bool]]:
    """Tokens, and whether they were copied."""
    model = ScriptedModel(by_table(table), vocabulary_size=SIZE)
    drafts = Drafts(Drafter.MIXED, replace(terms, vocabulary_size=SIZE), model=model)
    answers = drafts.run(drafts.job(text, until=10, together_until=3, copy_until=15))
    tokens = [each.token for given in answers for each in given.chain]
    return [(token.token_id, token.copied) for token in tokens]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([GREEDY, SAMPLED]), TABLES, TABLES, st.lists(IDS, min_size=1, max_size=20))
def test_chains_of_two_models_part_at_a_drawn_token(
    terms: DraftTerms, one: list[float], other: list[float], text: list[int]
) -> None:
    for (a, a_copied), (b, b_copied) in zip(
        chain(terms, one, text), chain(terms, other, text), strict=False
    ):
        assert a_copied == b_copied
        if a != b:
            assert not a_copied
            return
