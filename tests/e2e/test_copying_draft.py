"""A draft that only copies, as it is deployed: a process without weights beside a target."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from outrider.drafter import Drafter
from outrider.rpc.channel import open_channel
from outrider.testing.processes import running_services
from outrider.testing.tiny_models import save_tiny
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc

SENTENCE = "the ing of and the ing of "


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["thread", "process"])
async def test_copies_are_accepted_and_change_nothing(tmp_path: Path, engine: str) -> None:
    target = save_tiny(tmp_path / "target", context_length=1024)
    # Where the text goes by its tokenizer alone, nothing else is there to be read.
    text = tmp_path / "text"
    shutil.copytree(target, text, ignore=shutil.ignore_patterns("*.safetensors"))
    with running_services(
        tmp_path,
        target={"model": str(target), "dtype": "float64", "threads": "1"},
        draft={"model": str(text), "drafter": Drafter.SUFFIX.value, "engine": engine},
    ) as services:
        async with open_channel(services.address) as channel:
            stub = generation_pb2_grpc.GenerationServiceStub(channel)

            async def output(
                mode: generation_pb2.SpeculationMode.ValueType,
            ) -> tuple[list[int], generation_pb2.SpeculationStats]:
                request = generation_pb2.GenerateRequest(
                    text=SENTENCE * 8,
                    max_new_tokens=200,
                    sampling=common_pb2.SamplingParams(temperature=0.0, ignore_eos=True),
                    speculation=generation_pb2.SpeculationParams(mode=mode),
                )
                ids: list[int] = []
                async for answer in stub.Generate(request):
                    ids += answer.chunk.token_ids
                return ids, answer.summary.speculation

            alone, _ = await output(generation_pb2.SPECULATION_MODE_OFF)
            first, _ = await output(generation_pb2.SPECULATION_MODE_ON)
            again, statistics = await output(generation_pb2.SPECULATION_MODE_ON)
    assert first == again == alone
    assert statistics.copied_tokens == statistics.draft_tokens
    # The same output came before, in the same scope.
    assert statistics.accepted_copied_tokens > len(alone) / 2
