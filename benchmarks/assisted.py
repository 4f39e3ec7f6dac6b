"""What transformers makes of the embedded pair: assisted generation, both models in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation.streamers import BaseStreamer
from transformers.utils import logging as transformers_logging

from benchmarks.subject import CACHE, Subject
from outrider.engine.model_files import find_model_files

NO_EOS = -1


class AssistedGeneration:
    """The same two models with every core, a thread for each; settings are transformers' own."""

    def __init__(self, subject: Subject, cores: frozenset[int]) -> None:
        # It warns of the absent end-of-sequence id at each call.
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        self._cores = cores
        draft = find_model_files(
            subject.model, role="draft", cache_dir=CACHE, progress=lambda step: None
        )
        self._target, self._draft = (
            AutoModelForCausalLM.from_pretrained(
                folder, dtype=subject.numbers, local_files_only=True
            ).eval()
            for folder in (subject.folder, draft.folder)
        )

    def tokens_per_s(
        self, prompt: Sequence[int], *, output_tokens: int, temperature: float
    ) -> float:
        """Tokens per second of one answer after its first. Temperature 0: greedy."""
        token_ids, clock = torch.tensor([prompt]), _Clock()
        with self._placed(), torch.inference_mode():
            self._target.generate(
                token_ids,
                attention_mask=torch.ones_like(token_ids),
                generation_config=_config(output_tokens, temperature),
                assistant_model=self._draft,
                streamer=clock,
            )
        if sum(clock.counts) != output_tokens:
            raise RuntimeError("generate ended early")
        return sum(clock.counts[1:]) / (clock.times[-1] - clock.times[0])

    @contextmanager
    def _placed(self) -> Iterator[None]:
        own_cores, own_threads = os.sched_getaffinity(0), torch.get_num_threads()
        os.sched_setaffinity(0, self._cores)
        torch.set_num_threads(len(self._cores))
        try:
            yield
        finally:
            os.sched_setaffinity(0, own_cores)
            torch.set_num_threads(own_threads)


class _Clock(BaseStreamer):  # type: ignore[misc]
    """Notes when tokens come, and how many; the prompt comes first and is left out."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counts: list[int] = []
        self._prompt_came = False

    def put(self, value: torch.Tensor) -> None:
        """Called by generate."""
        if self._prompt_came:
            self.times.append(time.perf_counter())
            self.counts.append(value.numel())
        self._prompt_came = True

    def end(self) -> None:
        """Called by generate."""


def _config(output_tokens: int, temperature: float) -> GenerationConfig:
    shape = {"temperature": temperature, "top_k": 0} if temperature else {}
    return GenerationConfig(
        max_new_tokens=output_tokens,
        do_sample=bool(temperature),
        eos_token_id=NO_EOS,
        pad_token_id=0,
        **shape,
    )
