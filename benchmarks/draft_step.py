"""What a step of the embedded draft takes of a step of its target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import torch

from benchmarks.corpus import Corpus
from benchmarks.limits import in_turns, repeated_step
from benchmarks.results import Row
from benchmarks.subject import CACHE, EMBEDDED, Subject
from outrider.engine.loading import load_model

CONTEXTS = (100, 1000)
BAR = 1 / 6


@torch.inference_mode()
def measure(
    *, contexts: Sequence[int] = CONTEXTS, runs: int = 40, subject: Subject = EMBEDDED
) -> Iterator[Row]:
    """For each context one token by the draft and one by the target, in turns."""
    torch.set_num_threads(subject.threads)
    draft, target = (
        load_model(
            subject.model,
            role=role,
            cache_dir=CACHE,
            dtype=subject.dtype,
            device=subject.device,
            threads=subject.threads,
        ).model
        for role in ("draft", "target")
    )
    corpus = Corpus(subject.folder)
    for context in contexts:
        with (
            repeated_step(draft, corpus, count=1, length=1, context=context) as draft_step,
            repeated_step(target, corpus, count=1, length=1, context=context) as target_step,
        ):
            drafts, targets = in_turns([draft_step, target_step], subject.device, runs)
        yield Row(
            subject.row(f"embedded_draft_step_at_{context}"),
            median(drafts) * 1000,
            "ms",
            runs,
            ratio=median(one / other for one, other in zip(drafts, targets, strict=True)),
            against=f"a target step, {median(targets) * 1000:.1f} ms",
            bar=f"≤ {BAR:.3f} x",
            note=f"one token after {context}, forward alone; {subject.note}",
        )
