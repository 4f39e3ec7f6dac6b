"""Which drafts a coordinator uses, seen through the three services (FAULTS H1 to H3)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import torch

from outrider.testing.cluster import (
    Cluster,
    Output,
    WorkerPlan,
    running_cluster,
    start_draft,
    token_request,
)
from outrider.testing.scripted import ScriptedModel
from outrider.testing.small_tokenizers import byte_level_tokenizer, tokenizer_files
from outrider.tokenizer_files import TOKENIZER_FILE, TokenizerFiles
from outrider.v1 import generation_pb2

PLAIN = tokenizer_files(byte_level_tokenizer())
LONGER = tokenizer_files(byte_level_tokenizer(["<extra>", "<more>"]))
NONE = TokenizerFiles()
SIZE = byte_level_tokenizer().get_vocab_size()


def swapped() -> TokenizerFiles:
    """PLAIN with two tokens in each other's place."""
    content = json.loads(PLAIN.files[TOKENIZER_FILE])
    vocabulary = content["model"]["vocab"]
    vocabulary["Ġis"], vocabulary["tion"] = vocabulary["tion"], vocabulary["Ġis"]
    return TokenizerFiles({**PLAIN.files, TOKENIZER_FILE: json.dumps(content).encode()})


def plan(vocabulary_size: int, files: TokenizerFiles = PLAIN, *, steep: float = 0.0) -> WorkerPlan:
    """A model that samples all its ids, the highest most often when `steep` is large."""

    def logits(token_ids: Sequence[int]) -> torch.Tensor:
        return steep * torch.arange(vocabulary_size, dtype=torch.float64) / vocabulary_size

    return WorkerPlan(ScriptedModel(logits, vocabulary_size=vocabulary_size), tokenizer=files)


async def draft_status(cluster: Cluster) -> generation_pb2.WorkerStatus:
    status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    return status.drafts[0]


async def sample(cluster: Cluster, length: int = 300) -> Output:
    """One output at temperature 1, once the coordinator has reached the draft."""
    while not (await draft_status(cluster)).reachable:
        await cluster.coordinator.pools.look()
    return await cluster.generate(token_request([3, 4], max_new_tokens=length))


@pytest.mark.parametrize("files", [PLAIN, NONE], ids=["with tokenizer", "without"])
async def test_a_draft_with_more_padding_than_the_target_is_used(files: TokenizerFiles) -> None:
    async with running_cluster(plan(12, files), plan(16, files, steep=20.0)) as cluster:
        output = await sample(cluster)
    assert set(output.token_ids) == set(range(12))
    speculation = output.summary.speculation
    assert speculation.draft_tokens > 0
    assert speculation.draft_invalid_rounds == 0


@pytest.mark.parametrize("files", [PLAIN, NONE], ids=["with tokenizer", "without"])
async def test_a_target_with_more_ids_than_the_draft_samples_them_all(
    files: TokenizerFiles,
) -> None:
    async with running_cluster(plan(16, files), plan(12, files)) as cluster:
        output = await sample(cluster)
    assert set(output.token_ids) == set(range(16))
    assert output.summary.speculation.accepted_tokens > 0


@pytest.mark.parametrize(("target", "draft"), [(PLAIN, LONGER), (LONGER, PLAIN)])
async def test_extra_tokens_at_the_end_do_not_matter(
    target: TokenizerFiles, draft: TokenizerFiles
) -> None:
    async with running_cluster(plan(SIZE, target), plan(SIZE, draft)) as cluster:
        assert (await draft_status(cluster)).usable
        assert (await sample(cluster, 20)).summary.speculation.draft_tokens > 0


async def test_swapped_tokens_are_refused_by_name_and_requests_go_on() -> None:
    async with running_cluster(plan(SIZE), plan(SIZE, swapped())) as cluster:
        status = await draft_status(cluster)
        output = await sample(cluster, 20)
    assert not status.usable
    assert status.reachable
    first = min(byte_level_tokenizer().token_to_id(token) for token in ("Ġis", "tion"))
    assert f"token id {first} is 'tion' at the target and 'Ġis' at the draft" in status.reason
    assert len(output.token_ids) == 20
    assert output.summary.speculation.draft_tokens == 0


@pytest.mark.parametrize(
    ("files", "usable"), [(swapped(), False), (LONGER, True)], ids=["swapped", "longer"]
)
async def test_a_draft_that_comes_back_with_another_tokenizer_is_looked_at_anew(
    files: TokenizerFiles, usable: bool
) -> None:
    async with running_cluster(plan(SIZE), plan(SIZE)) as cluster:
        assert (await draft_status(cluster)).usable
        assert cluster.draft is not None
        address = cluster.draft.rpc.address
        await cluster.draft.stop(0.1)
        cluster.draft = await start_draft(
            WorkerPlan(plan(SIZE).model, tokenizer=files, address=address)
        )
        while (await draft_status(cluster)).model.tokenizer_digest != files.digest:
            await cluster.coordinator.pools.look()
        await cluster.coordinator.pools.look()
        status = await draft_status(cluster)
        output = await sample(cluster, 20)
    assert status.usable == usable
    assert (output.summary.speculation.draft_tokens > 0) == usable
    assert len(output.token_ids) == 20
