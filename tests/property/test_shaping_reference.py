"""Shaping equals the slow and plain computation for any options, prefix and draft."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.engine.columns import Columns
from outrider.engine.sampling_options import SamplingOptions
from outrider.engine.shaping import target_probs
from outrider.testing.exactness.reference import reference_probs

SIZE = 9
IDS = st.integers(0, SIZE - 1)
# Few different values, so that equal logits are common.
LOGIT = st.sampled_from([-3.0, -1.5, -0.25, 0.0, 0.5, 1.25, 2.0, 4.5])


@st.composite
def sampling_options(draw: st.DrawFn) -> SamplingOptions:
    def or_default(strategy, default):
        return draw(st.one_of(st.just(default), strategy))

    return SamplingOptions(
        temperature=or_default(st.sampled_from([0.0, 0.3, 0.75, 1.7]), 1.0),
        top_k=or_default(st.integers(1, SIZE + 2), 0),
        top_p=or_default(st.floats(0.05, 0.97), 1.0),
        min_p=or_default(st.floats(0.01, 0.9), 0.0),
        repetition_penalty=or_default(st.floats(0.5, 2.0), 1.0),
        presence_penalty=or_default(st.floats(-2.0, 2.0), 0.0),
        frequency_penalty=or_default(st.floats(-2.0, 2.0), 0.0),
        min_tokens=or_default(st.integers(1, 6), 0),
        logit_bias=draw(st.dictionaries(IDS, st.floats(-3.0, 3.0), max_size=3)),
        stop_token_ids=tuple(draw(st.sets(IDS, max_size=3))),
    )


@settings(max_examples=400, deadline=None)
@given(
    options=sampling_options(),
    prompt=st.lists(IDS, min_size=1, max_size=4),
    output=st.lists(IDS, max_size=6),
    drafts=st.lists(IDS, max_size=4),
    data=st.data(),
)
def test_every_row_is_the_reference(options, prompt, output, drafts, data):
    rows = len(drafts) + 1
    logits = data.draw(
        st.lists(st.lists(LOGIT, min_size=SIZE, max_size=SIZE), min_size=rows, max_size=rows)
    )
    probs = target_probs(
        torch.tensor(logits, dtype=torch.float64),
        options,
        columns=Columns(SIZE),
        token_ids=prompt + output,
        draft_token_ids=drafts,
        prompt_length=len(prompt),
    )
    expected = [
        reference_probs(
            row, options, prompt_token_ids=prompt, output_token_ids=output + drafts[:place]
        )
        for place, row in enumerate(logits)
    ]
    torch.testing.assert_close(
        probs, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12
    )
