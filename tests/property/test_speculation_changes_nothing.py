"""Greedy and COUPLED output of random requests is the target's own, however it was come by."""

from __future__ import annotations

from random import Random

import pytest

from outrider.testing.cluster import WorkerPlan, running_cluster, token_request
from outrider.testing.exactness.random_policy import Chances, random_policies
from outrider.testing.exactness.recorded_policy import RecordedPool
from outrider.testing.exactness.tables import random_pair
from outrider.testing.scripted import TableModel
from outrider.v1 import common_pb2, generation_pb2
from tests.integration.coupled_requests import OFF, generate_all

SIZE = 8
REQUESTS = 60


def random_request(random: Random) -> generation_pb2.GenerateRequest:
    """Any prompt, any length, any shaping, any stop."""

    def sometimes(value: float, otherwise: float) -> float:
        return value if random.random() < 0.4 else otherwise

    max_new_tokens = random.randrange(1, 60)
    greedy = random.random() < 0.4
    sampling = common_pb2.SamplingParams(
        seed=random.getrandbits(64),
        temperature=0.0 if greedy else random.choice([0.3, 1.0, 1.6]),
        top_p=sometimes(0.85, 1.0),
        top_k=int(sometimes(4, 0)),
        min_p=sometimes(0.05, 0.0),
        repetition_penalty=sometimes(1.3, 1.0),
        presence_penalty=sometimes(random.uniform(-1, 1), 0.0),
        frequency_penalty=sometimes(random.uniform(-0.5, 0.5), 0.0),
        min_tokens=random.randrange(min(4, max_new_tokens)),
        logit_bias={random.randrange(SIZE): random.choice([-100.0, 2.0])},
        stop_token_ids=random.sample(range(SIZE), random.choice([0, 0, 1])),
        verification=common_pb2.VERIFICATION_COUPLED,
    )
    prompt = [random.randrange(SIZE) for _ in range(random.randrange(1, 40))]
    return token_request(prompt, max_new_tokens=max_new_tokens, sampling=sampling)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 9))]
)
async def test_any_policy_gives_what_the_target_gives_alone(seed: int) -> None:
    random = Random(seed)
    pair = random_pair(seed=seed, vocabulary_size=SIZE, likeness=random.choice([0.3, 0.6, 0.9]))
    requests = [random_request(random) for _ in range(REQUESTS)]
    chances = Chances(draft_length=(0, 1, 2, 5, 9), ahead=(0, 1, 7), branches=(0, 3, 9))
    async with running_cluster(
        WorkerPlan(TableModel(pair.target, blocks=60)),
        WorkerPlan(TableModel(pair.draft)),
        draft_round_trip_s=random.choice([0.0, 0.004]),
    ) as cluster:
        cluster.coordinator.pools.policy = RecordedPool(random_policies(chances, seed=seed))
        outputs = await generate_all(cluster, requests)
        for request in requests:
            request.speculation.CopyFrom(OFF)
        alone = await generate_all(cluster, requests)
    for number, (output, expected) in enumerate(zip(outputs, alone, strict=True)):
        assert output.token_ids == expected.token_ids, number
        assert output.summary.finish_reason == expected.summary.finish_reason, number
        assert output.gapless
    speculation = [output.summary.speculation for output in outputs]
    assert sum(one.accepted_tokens for one in speculation) > 50
    assert sum(one.foreseen_rounds for one in speculation) > 0
