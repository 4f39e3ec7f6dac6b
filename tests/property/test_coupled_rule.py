"""COUPLED output is the target's own choices, whatever is drafted and however rounds are cut."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs
from outrider.randomness import Purpose, derive_seed, gumbel, token_word
from outrider.testing.exactness.reference import reference_probs
from target_service.coupled import judge
from target_service.draft_check import ProposedToken
from target_service.judgement import Judgement
from tests.property.test_shaping_reference import IDS, LOGIT, SIZE, sampling_options

LENGTH = 12
Table = Sequence[Sequence[float]]
TABLES = st.lists(st.lists(LOGIT, min_size=SIZE, max_size=SIZE), min_size=SIZE, max_size=SIZE)
SEEDS = st.integers(0, 2**64 - 1)
PROMPTS = st.lists(IDS, min_size=1, max_size=4)


def own_choices(
    table: Table, options: SamplingOptions, *, prompt: Sequence[int], seed: int
) -> list[int]:
    """The output by the definition: the largest log p + g at each position, computed plainly."""
    couple_seed = derive_seed(Purpose.COUPLE, seed=seed, choice_index=0)
    output: list[int] = []
    while len(output) < LENGTH and (not output or output[-1] not in options.stop_token_ids):
        position = len(prompt) + len(output)
        probs = reference_probs(
            table[[*prompt, *output][-1]],
            options,
            prompt_token_ids=prompt,
            output_token_ids=output,
        )
        scores = {
            token_id: math.log(prob)
            + gumbel(token_word(couple_seed, position=position, token_id=token_id))
            for token_id, prob in enumerate(probs)
            if prob > 0.0
        }
        output.append(max(scores, key=lambda token_id: (scores[token_id], -token_id)))
    return output


def judged(
    table: Table,
    options: SamplingOptions,
    drafts: Sequence[int],
    *,
    prompt: Sequence[int],
    output: Sequence[int],
    seed: int,
    rows: int,
) -> Judgement:
    """One round after `output`, of which the model gave the first `rows` rows."""
    token_ids = [*prompt, *output]
    logits = [table[last] for last in [token_ids[-1], *drafts]][:rows]
    probs = target_probs(
        torch.tensor(logits, dtype=torch.float64),
        options,
        columns=Columns(SIZE),
        token_ids=token_ids,
        draft_token_ids=drafts[: rows - 1],
        prompt_length=len(prompt),
    )
    return judge(
        probs,
        [ProposedToken(token_id, None) for token_id in drafts[:rows]],
        columns=Columns(SIZE),
        seed=seed,
        choice_index=0,
        position=len(token_ids),
        stop_token_ids=options.stop_token_ids,
    )


@settings(max_examples=100, deadline=None)
@given(sampling_options(), TABLES, PROMPTS, SEEDS, st.data())
def test_the_output_is_the_targets_own(options, table, prompt, seed, data):
    expected = own_choices(table, options, prompt=prompt, seed=seed)
    output: list[int] = []
    while len(output) < len(expected):
        # Some right tokens, then any, as a draft might send them.
        right = data.draw(st.integers(0, 8))
        drafts = expected[len(output) :][:right] + data.draw(st.lists(IDS, max_size=4))
        rows = data.draw(st.integers(1, len(drafts) + 1))
        judgement = judged(
            table, options, drafts, prompt=prompt, output=output, seed=seed, rows=rows
        )
        new = judgement.output_token_ids
        assert judgement.accepted <= len(new) <= judgement.accepted + 1
        assert new[: judgement.accepted] == drafts[: judgement.accepted]
        assert judgement.accepted >= min(len(expected) - len(output), right, rows)
        output += new
    assert output[: len(expected)] == expected
    if expected[-1] in options.stop_token_ids:
        assert output == expected


@settings(max_examples=50, deadline=None)
@given(TABLES, PROMPTS, SEEDS, st.lists(IDS, max_size=4))
def test_greedy_is_the_most_likely_token(table, prompt, seed, drafts):
    judgement = judged(
        table,
        SamplingOptions(temperature=0.0),
        drafts,
        prompt=prompt,
        output=(),
        seed=seed,
        rows=len(drafts) + 1,
    )
    before = [prompt[-1], *drafts]
    expected = [max(range(SIZE), key=lambda i: (table[last][i], -i)) for last in before]
    accepted = judgement.accepted
    assert judgement.output_token_ids == expected[: accepted + 1]
    assert drafts[:accepted] == expected[:accepted]
    assert accepted == len(drafts) or drafts[accepted] != expected[accepted]
