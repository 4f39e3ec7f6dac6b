"""Work: one round of one generation, written as a generator over forwards.

A work function yields the Chunk whose logits it needs next, receives them as a tensor
[rows, columns], and returns its result:

    def decode(sequence, token_id) -> Work[int]:
        rows = yield Chunk(sequence, [token_id], rows=1)
        return int(rows[0].argmax())

A forward that fails, or gives NaN or infinite logits, is raised where the work waits, with the
sequence cleared.

The model thread advances all live work together: the chunks that are pending at a step share
one forward, whatever they are (prefill, draft steps, verification, plain decoding).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import torch

from outrider.engine.model import Chunk

ResultT = TypeVar("ResultT")
Work = Generator[Chunk, torch.Tensor, ResultT]
