"""A fleet of tiny models in float32: fast, and often right about each other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from outrider.testing.fleet import Fleet, running_fleet
from outrider.testing.tiny_models import TARGET_SEED, save_tiny
from outrider.v1 import common_pb2, generation_pb2

NOISE = 0.05
"""Of the draft's weights: about two of three draft tokens are accepted."""

PATIENT = {"draft_timeout_ms": "250", "speculation": "on", "draft_length": "4"}


def save_models(folder: Path) -> tuple[Path, Path]:
    """The folders of a target and of a draft that is a noisy copy of it."""
    return (
        save_tiny(folder / "target", seed=TARGET_SEED, context_length=2048),
        save_tiny(folder / "draft", seed=TARGET_SEED, context_length=2048, noise=NOISE),
    )


@asynccontextmanager
async def tiny_fleet(
    folder: Path,
    *,
    targets: int = 2,
    drafts: int = 2,
    coordinators: int = 1,
    coordinator: Mapping[str, str] | None = None,
    worker: Mapping[str, str] | None = None,
) -> AsyncIterator[Fleet]:
    """A running fleet; settings beside those of the models."""
    target, draft = save_models(folder)
    exact = {"dtype": "float32", "threads": "1", **(worker or {})}
    async with running_fleet(
        folder,
        target={"model": str(target), **exact},
        draft={"model": str(draft), **exact},
        coordinator={**PATIENT, **(coordinator or {})},
        targets=targets,
        drafts=drafts,
        coordinators=coordinators,
    ) as fleet:
        yield fleet


def tiny_request(
    number: int, *, tokens: int, seed: int | None = None
) -> generation_pb2.GenerateRequest:
    """The request of that number: greedy without a seed, COUPLED with one."""
    sampling = common_pb2.SamplingParams(ignore_eos=True)
    if seed is None:
        sampling.temperature = 0.0
    else:
        sampling.seed = seed
    return generation_pb2.GenerateRequest(
        text=f"Prompt {number}: the ing of", max_new_tokens=tokens, sampling=sampling
    )
