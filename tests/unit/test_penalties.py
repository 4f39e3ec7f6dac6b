"""Bias, bans and penalties: each row sees its own prefix."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs

SIZE = 6
PROMPT = [0, 1]


def scores(
    options: SamplingOptions,
    *,
    output: list[int],
    drafts: list[int],
    logits: torch.Tensor | None = None,
) -> torch.Tensor:
    """Log-odds against id 5, which no test touches: what was done to the logits of each row."""
    if logits is None:
        logits = torch.ones(len(drafts) + 1, SIZE, dtype=torch.float64)
    probs = target_probs(
        logits,
        options,
        columns=Columns(SIZE),
        token_ids=PROMPT + output,
        draft_token_ids=drafts,
        prompt_length=len(PROMPT),
    )
    return (probs / probs[:, 5:]).log()


def test_frequency_counts_the_draft_tokens_before_the_row():
    got = scores(SamplingOptions(frequency_penalty=0.5), output=[2, 3, 2], drafts=[2, 4, 2])
    expected = [
        [0, 0, -1.0, -0.5, 0, 0],
        [0, 0, -1.5, -0.5, 0, 0],
        [0, 0, -1.5, -0.5, -0.5, 0],
        [0, 0, -2.0, -0.5, -0.5, 0],
    ]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


@given(
    st.lists(st.integers(0, SIZE), max_size=6),
    st.lists(st.integers(0, SIZE), min_size=1, max_size=6),
    st.floats(-2.0, 2.0),
    st.floats(-2.0, 2.0),
    st.sampled_from([1.0, 1.5, 0.7]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_a_row_is_the_same_to_the_last_bit_whoever_proposed_what_is_before_it(
    output: list[int],
    drafts: list[int],
    frequency: float,
    presence: float,
    repetition: float,
    dtype: torch.dtype,
) -> None:
    """Of equals top-p keeps one: a last bit may decide which."""
    options = SamplingOptions(
        frequency_penalty=frequency, presence_penalty=presence, repetition_penalty=repetition
    )

    def shaped(rows: int, output: list[int], drafts: list[int]) -> torch.Tensor:
        logits = torch.full((rows, SIZE), 1 / 3, dtype=dtype)
        return target_probs(
            logits,
            options,
            columns=Columns(SIZE),
            token_ids=PROMPT + output,
            draft_token_ids=drafts,
            prompt_length=len(PROMPT),
        )

    together = shaped(len(drafts) + 1, output, drafts)
    for row in range(len(drafts) + 1):
        alone = shaped(1, output + drafts[:row], [])
        assert torch.equal(together[row], alone[0])


def test_presence_counts_once_and_not_the_prompt():
    got = scores(SamplingOptions(presence_penalty=0.5), output=[2, 2], drafts=[0, 2, 0])
    expected = [[0, 0, -0.5, 0, 0, 0]] + [[-0.5, 0, -0.5, 0, 0, 0]] * 3
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


def test_repetition_counts_the_prompt_and_each_id_once():
    options = SamplingOptions(repetition_penalty=2.0)
    got = scores(options, output=[2], drafts=[0, 3, 3])
    seen = [[-0.5, -0.5, -0.5, 0, 0, 0]] * 2 + [[-0.5, -0.5, -0.5, -0.5, 0, 0]] * 2
    torch.testing.assert_close(got, torch.tensor(seen, dtype=torch.float64))


def test_repetition_multiplies_negative_logits():
    logits = torch.tensor([[-1.0, 1.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    got = scores(SamplingOptions(repetition_penalty=2.0), output=[], drafts=[], logits=logits)
    assert got[0, :2].tolist() == pytest.approx([-2.0, 0.5])


def test_repetition_comes_before_presence_and_frequency():
    options = SamplingOptions(
        repetition_penalty=2.0, presence_penalty=0.25, frequency_penalty=0.125
    )
    got = scores(options, output=[2, 2], drafts=[3])
    assert got[0].tolist() == pytest.approx([-0.5, -0.5, -0.5 - 0.25 - 0.25, 0, 0, 0])
    assert got[1, 3].item() == pytest.approx(-0.5 - 0.25 - 0.125)


def test_rewards_raise_what_penalties_lower():
    reward = scores(SamplingOptions(frequency_penalty=-2.0), output=[2], drafts=[])
    penalty = scores(SamplingOptions(frequency_penalty=2.0), output=[2], drafts=[])
    assert reward[0, 2].item() == pytest.approx(2.0)
    assert penalty[0, 2].item() == pytest.approx(-2.0)


def test_bias_reaches_every_row():
    got = scores(SamplingOptions(logit_bias={2: -100.0, 3: 1.5}), output=[], drafts=[0, 1, 4])
    assert got[:, 2].tolist() == pytest.approx([-100.0] * 4)
    assert got[:, 3].tolist() == pytest.approx([1.5] * 4)


def test_min_tokens_bans_every_stop_id_in_the_rows_before_it():
    options = SamplingOptions(min_tokens=3, stop_token_ids=(2, 4))
    got = scores(options, output=[1], drafts=[1, 1, 1])
    banned = got[:, [2, 4]] == -torch.inf
    assert banned.tolist() == [[True, True]] * 2 + [[False, False]] * 2
    assert bool((got[:, [0, 1, 3]] == 0.0).all())


def test_min_tokens_beats_a_stop_id_that_is_nearly_certain():
    logits = torch.zeros(1, SIZE, dtype=torch.float64)
    logits[0, 2] = 50.0
    options = SamplingOptions(min_tokens=1, stop_token_ids=(2,))
    early = scores(options, output=[], drafts=[], logits=logits)
    late = scores(options, output=[1], drafts=[], logits=logits)
    assert early[0, 2].item() == -torch.inf
    assert late[0, 2].item() == pytest.approx(50.0)


def test_a_ban_of_everything_possible_is_lifted():
    logits = torch.full((2, SIZE), -torch.inf, dtype=torch.float64)
    logits[0, 2] = 0.0
    logits[1, 2:4] = 0.0
    probs = target_probs(
        logits,
        SamplingOptions(min_tokens=9, stop_token_ids=(2,)),
        columns=Columns(SIZE),
        token_ids=PROMPT,
        draft_token_ids=[1],
        prompt_length=len(PROMPT),
    )
    assert probs.argmax(dim=1).tolist() == [2, 3]
    assert probs.max(dim=1).values.tolist() == [1.0, 1.0]


def test_ids_without_a_column_are_passed_over():
    columns = Columns(SIZE, torch.tensor([1, 4, 5]))
    probs = target_probs(
        torch.ones(2, 3, dtype=torch.float64),
        SamplingOptions(
            logit_bias={0: 9.0, 4: 1.0},
            presence_penalty=0.5,
            repetition_penalty=2.0,
            min_tokens=1,
            stop_token_ids=(0, 3),
        ),
        columns=columns,
        token_ids=[0, 1, 2, 4],
        draft_token_ids=[3],
        prompt_length=2,
    )
    got = (probs / probs[:, 2:]).log()
    expected = torch.tensor([[-0.5, -0.5, 0.0]] * 2, dtype=torch.float64)
    torch.testing.assert_close(got, expected)
