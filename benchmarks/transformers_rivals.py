"""What transformers itself makes of the same prompts: one by one, and by continuous batching."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig
from transformers.utils import logging as transformers_logging

from benchmarks.subject import Subject

NO_EOS = -1
BLOCKS = 192
"""Of transformers' pool, with PAGE tokens each: enough for 64 short generations."""
PAGE = 256
TOKEN_BUDGET = 2048
WARM_UP_TOKENS = 8


class TransformersRivals:
    """The model in transformers' own hands, on the cores and threads of the target."""

    def __init__(self, subject: Subject, cores: frozenset[int]) -> None:
        # It warns of the absent end-of-sequence id at each call.
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        self._cores = cores
        self._threads = subject.threads
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            subject.folder, dtype=subject.numbers, local_files_only=True
        )
        self._model = self._model.to(subject.device).eval()
        self._device = subject.device

    def one_by_one(self, prompts: Sequence[Sequence[int]], *, output_tokens: int) -> float:
        """Tokens per second of `generate`, prompt after prompt."""
        config = _sampling(output_tokens)
        with self._placed(), torch.inference_mode():
            since = time.perf_counter()
            for prompt in prompts:
                token_ids = torch.tensor([prompt], device=self._device)
                output = self._model.generate(
                    token_ids,
                    attention_mask=torch.ones_like(token_ids),
                    generation_config=config,
                )
                if output.shape[1] != len(prompt) + output_tokens:
                    raise RuntimeError("generate ended early")
            return len(prompts) * output_tokens / (time.perf_counter() - since)

    def batched(self, prompts: Sequence[Sequence[int]], *, output_tokens: int) -> float:
        """Tokens per second of continuous batching, its start and end left out."""
        # It tells of its own start on its logger, at a level that is for faults.
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)
        with (
            self._placed(),
            self._model.continuous_batching_context_manager(
                generation_config=_sampling(output_tokens),
                continuous_batching_config=ContinuousBatchingConfig(
                    page_size=PAGE, num_blocks=BLOCKS, max_batch_tokens=TOKEN_BUDGET
                ),
                timeout=60,
            ) as manager,
        ):
            self._collect(manager, prompts[:1], WARM_UP_TOKENS)
            since = time.perf_counter()
            self._collect(manager, prompts, output_tokens)
            return len(prompts) * output_tokens / (time.perf_counter() - since)

    def _collect(self, manager: Any, prompts: Sequence[Sequence[int]], output_tokens: int) -> None:
        manager.add_requests([list(one) for one in prompts], max_new_tokens=output_tokens)
        waiting = len(prompts)
        while waiting:
            result = manager.get_result(timeout=1)
            if result is None and not manager.is_running():
                raise RuntimeError("transformers' continuous batching ended by itself")
            if result is not None and result.is_finished():
                if result.error is not None or len(result.generated_tokens) != output_tokens:
                    raise RuntimeError(f"transformers' continuous batching: {result.error}")
                waiting -= 1

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """This thread, and those it starts, on the target's cores."""
        own_cores, own_threads = os.sched_getaffinity(0), torch.get_num_threads()
        os.sched_setaffinity(0, self._cores)
        torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            os.sched_setaffinity(0, own_cores)
            torch.set_num_threads(own_threads)


def _sampling(output_tokens: int) -> GenerationConfig:
    """Plain sampling at temperature 1; nothing but the length ends an output."""
    return GenerationConfig(
        max_new_tokens=output_tokens,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        eos_token_id=NO_EOS,
        pad_token_id=0,
    )
