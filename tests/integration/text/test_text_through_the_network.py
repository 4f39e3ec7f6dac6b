"""Text as a client of the three services sees it (FAULTS F1, F3, F4, D11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from coordinator.text.tokenizer import TargetTokenizer
from outrider.testing.cluster import Cluster, Output, WorkerPlan, running_cluster, token_request
from outrider.testing.reciting import reciting_model
from outrider.testing.small_tokenizers import (
    adding_bos,
    byte_fallback_tokenizer,
    byte_level_tokenizer,
    tokenizer_files,
)
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import common_pb2, generation_pb2

PROMPT = [3, 4]
BOS, EOS = 1, 2
GREEDY = common_pb2.SamplingParams(temperature=0)
TEXT = "👩‍👩‍👧 한국어 e\u0301 🙂 שלום"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
LEVEL = tokenizer_files(adding_bos(byte_level_tokenizer()), chat_template=TEMPLATE)
FALLBACK = tokenizer_files(byte_fallback_tokenizer())
BOTH = pytest.mark.parametrize("files", [LEVEL, FALLBACK], ids=["level", "fallback"])


def served(files: TokenizerFiles) -> TargetTokenizer:
    return TargetTokenizer.from_files(files)


async def ids_of(files: TokenizerFiles, text: str) -> list[int]:
    return [i for i in await served(files).encode(text) if i != BOS]


@asynccontextmanager
async def reciting(
    output: Sequence[int], files: TokenizerFiles = LEVEL, prompt: Sequence[int] = PROMPT
) -> AsyncIterator[Cluster]:
    """A target that recites ids, and a draft that knows them too."""

    def plan() -> WorkerPlan:
        model = reciting_model(
            output, prompt_length=len(prompt), vocabulary_size=served(files).vocabulary_size
        )
        return WorkerPlan(model, eos_token_ids=(EOS,), tokenizer=files)

    async with running_cluster(plan(), plan()) as cluster:
        yield cluster


async def recite(cluster: Cluster, draft_length: int, **fields: object) -> Output:
    speculation = generation_pb2.SpeculationParams(
        mode=generation_pb2.SPECULATION_MODE_ON, draft_length=draft_length
    )
    fields = {"max_new_tokens": 200, "sampling": GREEDY, "speculation": speculation, **fields}
    return await cluster.generate(token_request(PROMPT, **fields))


@BOTH
async def test_characters_come_whole_for_every_draft_length(files: TokenizerFiles) -> None:
    ids = [*await ids_of(files, TEXT), EOS]
    async with reciting(ids, files) as cluster:
        for draft_length in (0, 1, 2, 3, 4, 5, 8, 16):
            output = await recite(cluster, draft_length)
            assert output.token_ids == ids
            assert output.text == TEXT
            assert output.summary.text == ""
            assert output.gapless
            assert len(output.chunks) <= -(-len(ids) // (draft_length + 1)) + 1


@BOTH
async def test_a_broken_byte_neither_stalls_nor_ends_the_stream(files: TokenizerFiles) -> None:
    tokens = served(files)
    byte = {tokens.token_bytes.added(i, 3): i for i in reversed(range(3, 259))}
    ids = [byte[b"a"], byte[b"\x80"], byte[b" "], byte[b"b"], byte[b"\xf0"], byte[b"\x9f"], EOS]
    async with reciting(ids, files) as cluster:
        output = await recite(cluster, 0)
    assert [chunk.text for chunk in output.chunks[:4]] == ["a", "\ufffd", " ", "b"]
    assert output.summary.text == "\ufffd"
    assert output.token_ids == ids


@BOTH
@pytest.mark.parametrize("cut", [1, 6, 13])
async def test_a_stream_goes_on_inside_a_character(files: TokenizerFiles, cut: int) -> None:
    ids = [*await ids_of(files, TEXT), EOS]
    async with reciting(ids, files) as cluster:
        first = await recite(cluster, 2, max_new_tokens=cut)
        rest = await recite(cluster, 2, output_token_ids=first.token_ids)
    delivered = "".join(chunk.text for chunk in first.chunks)
    assert "\ufffd" not in delivered
    assert delivered + rest.text == TEXT
    assert first.token_ids + rest.token_ids == ids


async def test_a_chat_and_its_rendered_text_reach_both_models_as_the_same_ids() -> None:
    rendered = "<s>user: hi 한\n"
    wanted = await served(LEVEL).encode(rendered)
    prefixes: dict[str, list[tuple[int, ...]]] = {"target": [], "draft": []}
    plans = {
        role: WorkerPlan(
            reciting_model(
                PROMPT,
                prompt_length=len(wanted),
                vocabulary_size=served(LEVEL).vocabulary_size,
                seen=seen,
            ),
            tokenizer=LEVEL,
        )
        for role, seen in prefixes.items()
    }
    message = generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content="hi 한")
    always = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_ON)
    fields = {"max_new_tokens": 16, "sampling": GREEDY, "speculation": always}
    prompts = [
        generation_pb2.GenerateRequest(
            chat=generation_pb2.ChatPrompt(messages=[message]), **fields
        ),
        generation_pb2.GenerateRequest(text=rendered, **fields),
    ]
    assert wanted.count(BOS) == 1
    async with running_cluster(plans["target"], plans["draft"]) as cluster:
        for request in prompts:
            for seen in prefixes.values():
                seen.clear()
            output = await cluster.generate(request)
            assert output.summary.usage.prompt_tokens == len(wanted)
            assert output.summary.speculation.draft_tokens > 0
            for seen in prefixes.values():
                assert {prefix[: len(wanted)] for prefix in seen} == {tuple(wanted)}


async def test_a_chat_is_refused_by_name_where_there_is_no_template() -> None:
    message = generation_pb2.ChatMessage(role=generation_pb2.CHAT_ROLE_USER, content="hi")
    chat = generation_pb2.ChatPrompt(messages=[message])
    async with reciting(PROMPT, FALLBACK) as cluster:
        with pytest.raises(Exception, match="no chat template"):
            await cluster.generate(generation_pb2.GenerateRequest(chat=chat))
        assert (await recite(cluster, 2, max_new_tokens=3)).token_ids
