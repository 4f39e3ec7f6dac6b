"""Real workers that compile their model and stay on a core, on a thread and in a process."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import pytest
import torch

from outrider.testing.processes import ServiceProcess, running_services
from outrider.testing.tiny_models import DRAFT_SEED, TARGET_SEED, save_tiny, tiny_llama
from outrider.testing.tiny_tokenizer import tiny_tokenizer
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc

PROMPT = [5, 6, 7]
TOKENS = 40


def greedy() -> list[int]:
    """What transformers alone gives."""
    model = tiny_llama(
        seed=TARGET_SEED, vocabulary_size=tiny_tokenizer().get_vocab_size(), dtype=torch.float32
    ).to(torch.float64)
    token_ids = list(PROMPT)
    with torch.inference_mode():
        for _ in range(TOKENS):
            token_ids.append(int(model(torch.tensor([token_ids])).logits[0, -1].argmax()))
    return token_ids[len(PROMPT) :]


@pytest.mark.slow
def test_compiled_workers_give_what_the_target_gives(tmp_path: Path) -> None:
    common = {
        "dtype": "float64",
        "compile": "true",
        "pin_cores": str(min(os.sched_getaffinity(0))),
        "cache_dir": str(tmp_path / "cache"),
        "log_format": "json",
    }
    target = save_tiny(tmp_path / "target", seed=TARGET_SEED)
    draft = save_tiny(tmp_path / "draft", seed=DRAFT_SEED)
    with running_services(
        tmp_path,
        target={**common, "model": str(target), "engine": "process"},
        draft={**common, "model": str(draft), "engine": "thread"},
        coordinator={"draft_timeout_ms": "30000"},
    ) as services:
        with grpc.insecure_channel(services.address) as channel:
            request = generation_pb2.GenerateRequest(
                tokens=generation_pb2.TokenPrompt(token_ids=PROMPT),
                max_new_tokens=TOKENS,
                sampling=common_pb2.SamplingParams(temperature=0, ignore_eos=True),
                speculation=generation_pb2.SpeculationParams(draft_length=3),
            )
            responses = list(generation_pb2_grpc.GenerationServiceStub(channel).Generate(request))
        for service in (services.coordinator, services.target, services.draft):
            assert service.stop() == 0, service.log.read_text()
    assert [id_ for response in responses for id_ in response.chunk.token_ids] == greedy()
    assert responses[-1].summary.speculation.drafted_rounds > 0
    for service in (services.target, services.draft):
        log = service.log.read_text()
        assert "compiling 1 of 3 shapes" in log
        assert "uncompiled" not in log
    assert list((tmp_path / "cache" / "compiled").rglob("*.so"))


@pytest.mark.parametrize("engine", ["thread", pytest.param("process", marks=pytest.mark.slow)])
def test_a_core_that_is_not_there_is_named(tmp_path: Path, engine: str) -> None:
    settings = {"model": str(save_tiny(tmp_path / "model")), "pin_cores": "4095", "engine": engine}
    with pytest.raises(RuntimeError, match=r"pin_cores: this process may not use 4095"):
        ServiceProcess("target", tmp_path, settings).start()
