"""The first forwards of a model, which are slow, before anybody waits for one."""

from __future__ import annotations

from outrider.engine.load_error import ModelLoadError
from outrider.engine.model import Chunk, Model
from outrider.engine.soundness import sound_rows

PREFILL_TOKENS = 32


def warm_up(model: Model, draft_length: int) -> None:
    """Runs a prefill, a single row and a round of `draft_length` + 1 rows on throw-away state.

    Raises ModelLoadError for a model whose logits are of no use, such as one in a type of numbers
    that is too narrow for it.
    """
    room = model.context_length
    prefill = min(PREFILL_TOKENS, max(1, room - draft_length - 2))
    rows = max(1, min(draft_length + 1, room - prefill - 1))
    sequence = model.new_sequence()
    for count, wanted in ((prefill, 0), (1, 1), (rows, rows)):
        if len(sequence.prefix) + count <= room:
            token_ids = [1 % model.vocabulary_size] * count
            logits = model.forward([Chunk(sequence, token_ids, wanted)])
            if sound_rows(logits) != [wanted]:
                raise ModelLoadError("the model gives NaN or infinite logits")
    sequence.rollback(0)
