"""Which drafts fit which targets, over rollouts and restarts."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace

from coordinator.replica import Replica
from outrider.testing.cluster import WorkerPlan
from outrider.testing.pools import Member, PooledCluster, running_pools
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.small_tokenizers import byte_level_tokenizer, tokenizer_files
from outrider.tokenizer_files import TokenizerFiles
from outrider.v1 import model_pb2

SIZE = byte_level_tokenizer().get_vocab_size()
FIRST, SECOND = (
    tokenizer_files(byte_level_tokenizer()),
    tokenizer_files(byte_level_tokenizer(["x"])),
)
NONE = TokenizerFiles()


def plan(digest: str, files: TokenizerFiles = NONE) -> WorkerPlan:
    model = TableModel(random_table(seed=1))
    return WorkerPlan(model, weights_digest=digest, tokenizer=files)


async def restarted(cluster: PooledCluster, member: Member, with_plan: WorkerPlan) -> Replica:
    """Another process in its place, looked at."""
    await member.server.stop(0)
    await member.come_back(with_plan)
    replica = cluster.replica(member)
    known = replica.known_as
    async with asyncio.timeout(60):
        while not replica.usable or replica.known_as == known:
            await cluster.coordinator.pools.look()
            await asyncio.sleep(0.02)
    return replica


async def test_a_draft_that_fits_one_target_is_usable_whatever_the_others_are() -> None:
    """One of two targets serves a tokenizer that the draft does not have."""
    for targets in ([plan("a"), plan("b", FIRST)], [plan("b", FIRST), plan("a")]):
        async with running_pools(targets, [plan("draft")]) as cluster:
            replica = cluster.replica(cluster.drafts[0])
            assert sorted(bool(reason) for reason in replica.misfits.values()) == [False, True]
            assert replica.usable
            assert not replica.to_message().reason


async def test_a_tokenizer_that_nobody_serves_any_more_is_let_go() -> None:
    async with running_pools([plan("a", FIRST)]) as cluster:
        pools = cluster.coordinator.pools
        tokenizer = weakref.ref(pools.target_model().tokenizer)
        assert tokenizer() is not None
        await restarted(cluster, cluster.targets[0], plan("b", SECOND))
        gc.collect()
        assert tokenizer() is None
        assert pools.target_model().model.tokenizer_digest == SECOND.digest


async def test_one_tokenizer_serves_all_that_have_the_same() -> None:
    async with running_pools([plan("a", FIRST), plan("a", FIRST)]) as cluster:
        one, other = (cluster.replica(member) for member in cluster.targets)
        assert one.tokenizer is other.tokenizer is not None


async def test_what_was_compared_long_ago_is_forgotten() -> None:
    async with running_pools([plan("0")], [plan("draft")]) as cluster:
        pools = cluster.coordinator.pools
        target, draft = cluster.replica(cluster.targets[0]), cluster.replica(cluster.drafts[0])
        model = model_pb2.GetModelResponse()
        model.CopyFrom(target.model)
        for n in range(100):
            model.weights_digest = str(n)
            target.worker.last = replace(target.worker.last, model=model)
            await pools._take_draft(draft)
            assert draft.misfits[next(reversed(draft.misfits))] == ""
        assert len(draft.misfits) <= 33
