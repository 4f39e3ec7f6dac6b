"""What a generation gives, whatever the draft does: through real services on loopback."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from outrider.testing.cluster import Cluster, Output, WorkerPlan, running_cluster, token_request
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.tiny_models import tiny_pair
from outrider.v1 import common_pb2, generation_pb2

SIZE = 8
PROMPT = [1, 2, 3]
GREEDY = common_pb2.SamplingParams(temperature=0)
OFF = generation_pb2.SpeculationParams(mode=generation_pb2.SPECULATION_MODE_OFF)


def k(draft_length: int) -> generation_pb2.SpeculationParams:
    return generation_pb2.SpeculationParams(
        mode=generation_pb2.SPECULATION_MODE_ON, draft_length=draft_length
    )


def table(seed: int) -> TableModel:
    return TableModel(random_table(seed=seed))


async def greedy(
    cluster: Cluster,
    speculation: generation_pb2.SpeculationParams,
    *,
    prompt: Sequence[int] = PROMPT,
    length: int = 64,
) -> Output:
    return await cluster.generate(
        token_request(prompt, max_new_tokens=length, sampling=GREEDY, speculation=speculation)
    )


async def test_greedy_output_is_the_targets_own_on_a_tiny_pair() -> None:
    target, draft = tiny_pair()
    generator = torch.Generator().manual_seed(0)
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        for draft_length in range(1, 9):
            prompt = torch.randint(0, 128, (5 * draft_length,), generator=generator).tolist()
            alone = await greedy(cluster, OFF, prompt=prompt, length=48)
            speculated = await greedy(cluster, k(draft_length), prompt=prompt, length=48)
            assert speculated.token_ids == alone.token_ids
            assert speculated.gapless
            assert speculated.summary.reproducible
            assert speculated.summary.speculation.draft_tokens > 0


@pytest.mark.parametrize("draft_length", range(1, 9))
async def test_a_draft_equal_to_the_target_is_always_accepted(draft_length: int) -> None:
    target, _ = tiny_pair()
    same, _ = tiny_pair()
    async with running_cluster(WorkerPlan(target), WorkerPlan(same)) as cluster:
        output = await greedy(cluster, k(draft_length), length=200)
    speculation = output.summary.speculation
    assert len(output.token_ids) == 200
    assert speculation.accepted_tokens == speculation.draft_tokens > 0
    assert speculation.draft_invalid_rounds == speculation.draft_missed_rounds == 0
    assert speculation.replays == 0


async def test_drafts_are_used_again_after_rounds_without_any() -> None:
    same = table(1)
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(same)) as cluster:
        first = await greedy(cluster, k(3), length=10)
        rest = await cluster.generate(
            token_request(
                PROMPT,
                max_new_tokens=60,
                sampling=GREEDY,
                speculation=k(3),
                output_token_ids=first.token_ids,
            )
        )
    assert rest.summary.speculation.accepted_tokens == rest.summary.speculation.draft_tokens > 0


async def test_a_draft_that_is_always_wrong_changes_nothing() -> None:
    target = table(1)

    def contrary(token_ids: Sequence[int]) -> torch.Tensor:
        return -target.table[token_ids[-2], token_ids[-1]]

    draft = ScriptedModel(contrary, vocabulary_size=SIZE)
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        before = target.forwards
        alone = await greedy(cluster, OFF)
        alone_forwards = target.forwards - before
        speculated = await greedy(cluster, k(4))
        forwards = target.forwards - before - alone_forwards
    assert speculated.token_ids == alone.token_ids
    assert speculated.summary.speculation.accepted_tokens == 0
    assert forwards <= alone_forwards


async def test_exactly_as_many_tokens_as_asked_for() -> None:
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(2))) as cluster:
        for length in range(1, 21):
            for draft_length in range(1, 9):
                output = await cluster.generate(
                    token_request(PROMPT, max_new_tokens=length, speculation=k(draft_length))
                )
                assert len(output.token_ids) == length
                assert output.summary.usage.output_tokens == length
                assert output.summary.usage.prompt_tokens == len(PROMPT)
                assert output.summary.finish_reason == generation_pb2.FINISH_REASON_LENGTH
                assert output.gapless


async def test_no_more_is_drafted_than_can_become_output() -> None:
    draft = table(1)
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(draft)) as cluster:
        output = await greedy(cluster, k(8), length=4)
        assert output.summary.speculation.draft_tokens <= 2
        assert len(output.token_ids) == 4


async def test_a_single_token_opens_no_draft_stream() -> None:
    draft = table(2)
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(draft)) as cluster:
        await greedy(cluster, k(4), length=1)
        assert draft.forwards == 0
        await greedy(cluster, k(4), length=8)
        assert draft.forwards > 0


@pytest.mark.parametrize("place", range(1, 8))
async def test_the_output_ends_at_an_eos_anywhere_in_an_accepted_run(place: int) -> None:
    eos = 7

    def rising(token_ids: Sequence[int]) -> list[float]:
        step = len(token_ids) - len(PROMPT)
        chosen = eos if step == place else step % 6
        return [20.0 if token_id == chosen else 0.0 for token_id in range(SIZE)]

    def model() -> ScriptedModel:
        return ScriptedModel(rising, vocabulary_size=SIZE)

    plan = WorkerPlan(model(), eos_token_ids=(eos,))
    async with running_cluster(plan, WorkerPlan(model())) as cluster:
        output = await greedy(cluster, k(4), length=30)
        assert output.token_ids == [*(step % 6 for step in range(place)), eos]
        assert output.summary.finish_reason == generation_pb2.FINISH_REASON_STOP
        speculation = output.summary.speculation
        assert speculation.accepted_tokens <= len(output.token_ids)
        ignoring = await cluster.generate(
            token_request(
                PROMPT,
                max_new_tokens=30,
                sampling=common_pb2.SamplingParams(temperature=0, ignore_eos=True),
                speculation=k(4),
            )
        )
        assert len(ignoring.token_ids) == 30


async def test_a_stop_id_of_the_request_ends_the_output() -> None:
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(1))) as cluster:
        plain = await greedy(cluster, k(4))
        stop = plain.token_ids[5]
        output = await cluster.generate(
            token_request(
                PROMPT,
                max_new_tokens=64,
                sampling=common_pb2.SamplingParams(temperature=0, stop_token_ids=[stop]),
                speculation=k(4),
            )
        )
    first = plain.token_ids.index(stop)
    assert output.token_ids == plain.token_ids[: first + 1]
    assert output.summary.finish_reason == generation_pb2.FINISH_REASON_STOP


async def test_a_seeded_request_repeats_and_another_seed_differs() -> None:
    def seeded(seed: int) -> generation_pb2.GenerateRequest:
        sampling = common_pb2.SamplingParams(temperature=2.0, seed=seed)
        return token_request(PROMPT, max_new_tokens=40, sampling=sampling, speculation=k(3))

    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(2))) as cluster:
        outputs = [(await cluster.generate(seeded(42))).token_ids for _ in range(20)]
        other = await cluster.generate(seeded(43))
    assert all(output == outputs[0] for output in outputs)
    assert other.token_ids != outputs[0]


async def test_requests_without_a_seed_differ_and_tell_the_seed_they_got() -> None:
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(2))) as cluster:
        request = token_request(PROMPT, max_new_tokens=40, speculation=k(3))
        one, two = await cluster.generate(request), await cluster.generate(request)
        assert one.token_ids != two.token_ids
        again = token_request(
            PROMPT,
            max_new_tokens=40,
            sampling=common_pb2.SamplingParams(
                seed=one.summary.seed, verification=common_pb2.VERIFICATION_REJECTION
            ),
            speculation=k(3),
        )
        assert (await cluster.generate(again)).token_ids == one.token_ids


async def test_every_token_with_mass_comes_up() -> None:
    law = torch.tensor([0.34, 0.33, 0.33]).log()
    target = ScriptedModel(lambda _: law, vocabulary_size=3)
    draft = ScriptedModel(lambda _: law, vocabulary_size=3)
    seen: set[int] = set()
    async with running_cluster(WorkerPlan(target), WorkerPlan(draft)) as cluster:
        for seed in range(60):
            sampling = common_pb2.SamplingParams(seed=seed)
            output = await cluster.generate(
                token_request([0], max_new_tokens=5, sampling=sampling, speculation=k(2))
            )
            seen.update(output.token_ids)
    assert seen == {0, 1, 2}


async def test_a_resumed_generation_goes_on_as_it_would_have() -> None:
    sampling = common_pb2.SamplingParams(seed=7)
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(2))) as cluster:
        whole = await cluster.generate(
            token_request(PROMPT, max_new_tokens=40, sampling=sampling, speculation=OFF)
        )
        for kept in (0, 1, 17, 39):
            rest = await cluster.generate(
                token_request(
                    PROMPT,
                    max_new_tokens=40,
                    sampling=sampling,
                    speculation=OFF,
                    output_token_ids=whole.token_ids[:kept],
                )
            )
            assert rest.token_ids == whole.token_ids[kept:]
            assert rest.chunks[0].offset == kept
            assert rest.summary.usage.output_tokens == 40
        done = await cluster.generate(
            token_request(
                PROMPT, max_new_tokens=40, sampling=sampling, output_token_ids=whole.token_ids
            )
        )
    assert done.chunks == []
    assert done.summary.finish_reason == generation_pb2.FINISH_REASON_LENGTH
    assert done.summary.usage.output_tokens == 40


async def test_no_draft_round_goes_past_the_drafts_context() -> None:
    short = TableModel(random_table(seed=2), context_length=32)
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(short)) as cluster:
        alone = await greedy(cluster, OFF, length=80)
        output = await greedy(cluster, k(4), length=80)
    assert output.token_ids == alone.token_ids
    assert output.summary.speculation.draft_tokens > 0
    assert output.summary.speculation.draft_missed_rounds == 0


async def test_sums_over_requests_are_those_of_the_coordinator() -> None:
    async with running_cluster(WorkerPlan(table(1)), WorkerPlan(table(2))) as cluster:
        outputs = [await greedy(cluster, k(3), length=n) for n in (5, 9, 20)]
        status = await cluster.stub.GetStatus(generation_pb2.GenerationServiceGetStatusRequest())
    each = [output.summary.speculation for output in outputs]
    total = status.speculation
    for name in ("rounds", "drafted_rounds", "draft_tokens", "accepted_tokens"):
        assert getattr(total, name) == sum(getattr(one, name) for one in each)
    assert status.finished == 3
    assert status.targets[0].status.accepted_tokens == total.accepted_tokens
    assert status.targets[0].status.draft_tokens == total.draft_tokens
