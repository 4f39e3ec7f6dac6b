"""Rows of the tables that people read."""

from __future__ import annotations

import pytest

from outrider.cli.tables import worker_table
from outrider.v1 import generation_pb2, model_pb2


@pytest.mark.parametrize(
    ("dtype", "drafter", "words"),
    [
        ("bfloat16", "", "tiny bfloat16 cpu"),
        ("bfloat16", "mixed", "tiny bfloat16 cpu, mixed"),
        ("none", "suffix", "tiny cpu, suffix"),
    ],
)
def test_a_worker_says_what_it_drafts_with(dtype: str, drafter: str, words: str) -> None:
    model = model_pb2.GetModelResponse(name="tiny", dtype=dtype, device="cpu", drafter=drafter)
    state = generation_pb2.GenerationServiceGetStatusResponse(
        drafts=[generation_pb2.WorkerStatus(usable=True, model=model)]
    )
    cells = {column.header: list(column.cells) for column in worker_table(state).columns}
    assert [str(cell) for cell in cells["model"]] == [words]
