"""A model that recites: its output is known before, whatever the prompt."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from outrider.testing.scripted import ScriptedModel

CERTAIN = 100.0


def reciting_model(
    output: Sequence[int],
    *,
    prompt_length: int,
    vocabulary_size: int,
    seen: list[tuple[int, ...]] | None = None,
) -> ScriptedModel:
    """After a prompt of `prompt_length` ids it gives `output`, then the last id again and again.

    `seen` takes each prefix that the model was asked about.
    """

    def logits(token_ids: Sequence[int]) -> torch.Tensor:
        if seen is not None:
            seen.append(tuple(token_ids))
        place = min(max(0, len(token_ids) - prompt_length), len(output) - 1)
        row = torch.zeros(vocabulary_size, dtype=torch.float64)
        row[output[place]] = CERTAIN
        return row

    return ScriptedModel(logits, vocabulary_size=vocabulary_size)
