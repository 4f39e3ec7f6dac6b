"""Lessons made up for tests."""

from __future__ import annotations

import torch

from outrider.distill.lesson import LAW_SIZE, Lesson


def lesson(length: int, *, begin: int = 1, seed: int = 0, vocabulary_size: int = 64) -> Lesson:
    """Of `length` random ids, with random laws from `begin` on."""
    generator = torch.Generator().manual_seed(seed)
    token_ids = torch.randint(0, vocabulary_size, (length,), generator=generator).tolist()
    logits = torch.randn(length - begin, vocabulary_size, generator=generator)
    probs, ids = logits.softmax(dim=1).topk(min(LAW_SIZE, vocabulary_size), dim=1)
    return Lesson(token_ids, begin, ids.to(torch.int32), probs.to(torch.float16))
