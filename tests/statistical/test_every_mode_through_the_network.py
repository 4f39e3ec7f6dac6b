"""The output law through the real services in every mode of drafting, whatever befalls them.

A policy that goes by chance takes the coordinator's place of choosing: draft length, drafting
ahead, side branches and patience change with every round. Laws over four ids need fewer samples
than those over eight to tell as much.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from coordinator.draft_plan import SpeculationTerms
from coordinator.policy import GenerationPolicy, PoolPolicy
from draft_service.proposal import CandidateCut
from outrider.drafter import Drafter
from outrider.engine.sampling_options import SamplingOptions
from outrider.testing.cluster import Cluster
from outrider.testing.exactness.decoding import Decoder, Place, Request, Round, places
from outrider.testing.exactness.experiments import Transitions, no_seeds, numbered_seeds
from outrider.testing.exactness.network import Conditions, network_decoder
from outrider.testing.exactness.pool_troubles import PoolTroubles
from outrider.testing.exactness.random_policy import Chances, random_policies
from outrider.testing.exactness.recorded_policy import PolicyMaker
from outrider.testing.exactness.stages import Stages
from outrider.testing.exactness.tables import random_pair
from outrider.testing.exactness.troubles import DraftTroubles
from outrider.testing.scripted import TableModel
from outrider.v1 import common_pb2, draft_pb2
from tests.integration.hostile_draft import Asked, hostile_draft

PAIR = random_pair(seed=1, vocabulary_size=4, likeness=0.6)
OTHER = random_pair(seed=2, vocabulary_size=4)
CUT = CandidateCut(candidates=3)
PROMPT = (1, 2)
TOGETHER = SamplingOptions(temperature=1.3, top_k=3, top_p=0.98, min_p=0.02)
TROUBLES = DraftTroubles(
    drafts=(lambda: TableModel(PAIR.draft), lambda: TableModel(OTHER.draft)), cut=CUT
)
POOL_TROUBLES = PoolTroubles(
    targets=(lambda: TableModel(PAIR.target),),
    drafts=(lambda: TableModel(PAIR.draft), lambda: TableModel(OTHER.draft)),
)
AT_ONCE = 12
FEW_BLOCKS = 110
"""Of the target's pool: less than the generations that run at once take in the end."""
QUICK = Stages(alarm_samples=16_000, verdict_samples=120_000)
QUICKEST = Stages(alarm_samples=8_000, verdict_samples=120_000)


@dataclass(slots=True)
class Counting:
    """Decodes as another decoder does and counts the places of the output tokens."""

    decoder: Decoder
    seen: Counter[Place] = field(default_factory=Counter)

    def __call__(self, requests: Sequence[Request]) -> Iterator[Sequence[Round]]:
        for rounds in self.decoder(requests):
            self.seen.update(places(rounds))
            yield rounds


def everything(**others: object) -> Conditions:
    """All that may change at once does, and all that may go wrong."""
    conditions = Conditions(
        policy=random_policies(Chances()),
        cut=CUT,
        target_blocks=FEW_BLOCKS,
        at_once=AT_ONCE,
        draft_round_trip_s=0.005,
        troubles=TROUBLES,
    )
    return replace(conditions, **others)  # type: ignore[arg-type]


def everything_by(drafter: Drafter, **others: object) -> Conditions:
    """The same with a draft that comes by its tokens in that way."""
    troubles = replace(TROUBLES, drafter=drafter)
    return everything(drafter=drafter, troubles=troubles, **others)


def failing_over() -> Conditions:
    """Two targets and two drafts, of which one or the other is in trouble all the time."""
    return Conditions(
        policy=random_policies(Chances(patience_s=(0.0, 0.02, 0.1))),
        cut=CUT,
        at_once=AT_ONCE,
        replicas=2,
        troubles=POOL_TROUBLES,
        settings={"target_wait_s": 60.0},
    )


def by_chance(**chances: tuple[float, ...]) -> Conditions:
    """Nothing goes wrong, and of the chances some are given."""
    made = Chances(**chances)  # type: ignore[arg-type]
    return Conditions(policy=random_policies(made), cut=CUT)


def places_of_lawful_output(conditions: Conditions, stages: Stages) -> Counter[Place]:
    """How many output tokens came at each place of a round; their law was the target's."""
    with network_decoder(PAIR, conditions) as decoder:
        counting = Counting(decoder)
        experiment = Transitions(
            PAIR, counting, prompt_token_ids=PROMPT, seeds=no_seeds, generation_length=300
        )
        assert stages.passes(experiment)
        drafts = decoder.cluster.coordinator.pools.drafts.all
        assert all(draft.honesty.trusted for draft in drafts)
    return counting.seen


@pytest.mark.timeout(600)
def test_everything_at_once() -> None:
    seen = places_of_lawful_output(everything(), QUICK)
    assert set(seen) == set(Place)
    assert min(seen.values()) >= 20


@pytest.mark.timeout(600)
def test_copies_among_drawn_tokens_move_no_law() -> None:
    seen = places_of_lawful_output(everything_by(Drafter.MIXED), QUICKEST)
    assert seen[Place.INSIDE] > 300


@pytest.mark.timeout(600)
def test_failover_moves_no_law() -> None:
    seen = places_of_lawful_output(failing_over(), QUICKEST)
    assert seen[Place.AFTER_REPLAY] >= 20
    assert seen[Place.INSIDE] > 300


NEVER = (0,)
COPYING = (Drafter.NGRAM, Drafter.SUFFIX, Drafter.MIXED)
MODES = {
    "everything": everything(),
    "everything, not trusted": everything(settings={"draft_trust": "untrusted"}),
    "everything, coupled": everything(verification=common_pb2.VERIFICATION_COUPLED),
    "k by chance": by_chance(ahead=NEVER, branches=NEVER),
    "ahead": by_chance(ahead=(1, 4), branches=NEVER, patience_s=(1.0,)),
    "ahead, never waiting": by_chance(ahead=(2, 6), branches=NEVER, patience_s=(0.0,)),
    "branches": by_chance(branches=(4,), branch_length=(1, 3)),
    "distant": replace(by_chance(), draft_round_trip_s=0.02),
    "short of room": replace(by_chance(), target_blocks=FEW_BLOCKS, at_once=AT_ONCE),
    "failover": failing_over(),
    "failover, copies": replace(failing_over(), drafter=Drafter.MIXED),
    "copies beyond": replace(by_chance(copies=(3, 8)), drafter=Drafter.MIXED),
    "copies alone": replace(by_chance(draft_length=(0, 0, 3)), drafter=Drafter.MIXED),
    **{f"everything, {way}": everything_by(way) for way in COPYING},
    **{
        f"everything, {way}, not trusted": everything_by(way, settings={"draft_trust": "untrusted"})
        for way in COPYING
    },
    **{
        f"everything, {way}, coupled": everything_by(
            way, verification=common_pb2.VERIFICATION_COUPLED
        )
        for way in COPYING
    },
    "draft killed": replace(by_chance(), draft_round_trip_s=0.0, troubles=TROUBLES),
}
OPTIONS = {"plain": SamplingOptions(), "together": TOGETHER}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("mode", "options"), [*((mode, "plain") for mode in MODES), ("everything", "together")]
)
def test_transitions_in_every_mode(mode: str, options: str) -> None:
    with network_decoder(PAIR, MODES[mode]) as decoder:
        experiment = Transitions(
            PAIR, decoder, OPTIONS[options], prompt_token_ids=PROMPT, seeds=numbered_seeds
        )
        assert Stages().passes(experiment)


def measuring(*, may_stop: bool) -> PolicyMaker:
    """The coordinator's own choices, whatever draft length a request names."""
    pool = PoolPolicy()

    def policy(terms: SpeculationTerms) -> GenerationPolicy:
        return pool.generation(replace(terms, draft_length=None, may_stop=may_stop))

    return policy


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("may_stop", [True, False])
def test_what_is_chosen_by_measurement_moves_no_law(may_stop: bool) -> None:
    policy = measuring(may_stop=may_stop)
    conditions = Conditions(policy=policy, cut=CUT, target_step_s=0.005, at_once=4)
    seen = places_of_lawful_output(conditions, QUICK)
    assert may_stop or seen[Place.INSIDE] > 300


def many_of_each(asked: Asked) -> Iterator[draft_pb2.DraftResponse]:
    """Two tokens for each place, guesses among them, whatever was asked."""
    tokens = [asked.token(guess=asked.random.random() < 0.3) for _ in range(2)]
    for _ in range(3):
        parent = asked.random.choice(tokens[-2:]).node_id
        tokens += [asked.token(parent_node_id=parent) for _ in range(2)]
    yield asked.proposal(tokens)
    yield asked.proposal(asked.chain(3), done=True)


async def hostile_from_now_on(cluster: Cluster) -> None:
    async with hostile_draft(cluster, many_of_each):
        await asyncio.Event().wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hostile_draft_that_is_not_trusted_moves_no_law() -> None:
    conditions = replace(
        by_chance(), settings={"draft_trust": "untrusted"}, troubles=hostile_from_now_on
    )
    with network_decoder(PAIR, conditions) as decoder:
        counting = Counting(decoder)
        experiment = Transitions(PAIR, counting, prompt_token_ids=PROMPT, seeds=no_seeds)
        assert QUICK.passes(experiment)
    assert counting.seen[Place.INSIDE] > 300
