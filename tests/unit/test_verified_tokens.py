"""How many of the tokens that lie ready a round verifies, and whether a bonus follows them."""

from __future__ import annotations

from typing import cast

import pytest

from coordinator.draft_intake import DraftIntake
from coordinator.draft_plan import Copying, DraftPlan, Situation, SpeculationTerms
from coordinator.draft_session import DraftSession
from coordinator.draft_tree import DraftTree
from coordinator.drafting import Drafting
from coordinator.policy import GenerationPolicy
from coordinator.proposal import Proposal
from coordinator.worker_time import WorkerTime
from outrider.prefix import TokenPrefix
from outrider.v1 import common_pb2, model_pb2


class Session:
    """A draft that copies and has nothing more under way."""

    ready = True
    model = model_pb2.GetModelResponse(features=["copies"], drafter="mixed")
    next_in_s = float("inf")

    def commit(self, plan: DraftPlan) -> None:
        pass


class Stated:
    """A policy with one plan, and a number of copies by what lies before them."""

    def __init__(self, plan: DraftPlan, copies: dict[int, int]) -> None:
        self._plan = plan
        self._copies = copies
        self.asked: list[tuple[int, int]] = []
        self.told: list[Copying] = []

    def plan(self, situation: Situation) -> DraftPlan:
        assert situation.copying is not None
        self.told.append(situation.copying)
        return self._plan

    def copies(self, *, drawn: int, run: int) -> int:
        self.asked.append((drawn, run))
        return self._copies.get(drawn, 0)


class Intake:
    time = WorkerTime()


async def proposal(
    flags: str,
    plan: DraftPlan,
    *,
    copies: dict[int, int] | None = None,
    run: int = 0,
    bonus_free: bool = False,
) -> tuple[Proposal, Stated]:
    """What a round makes of a chain with `d` for each drawn and `c` for each copied token, behind
    `run` output tokens that were copied."""
    tree = DraftTree(TokenPrefix((1, 2, 3)))
    tree.begin_round(1)
    for place, kind in enumerate("c" * run + flags):
        token = common_pb2.DraftToken(node_id=place + 1, token_id=place, copied=kind == "c")
        if place:
            token.parent_node_id = place
        else:
            token.root_round = 1
        tree.add(token, until_length=1000)
    tree.advance(range(run))
    policy = Stated(plan, copies or {})
    drafting = Drafting(
        terms=SpeculationTerms(max_draft_length=10, bonus_free=bonus_free),
        policy=cast(GenerationPolicy, policy),
        session=cast(DraftSession, Session()),
        intake=cast(DraftIntake, Intake()),
        tree=tree,
        room=lambda: 100,
    )
    drafting.go_on(offset=9, in_run=False)
    return await drafting.proposal(), policy


@pytest.mark.parametrize(
    ("flags", "length"),
    [
        ("", 0),
        ("dd", 2),
        ("ddddd", 3),
        ("dddcccccc", 3 + 1),
        ("cddcccccc", 3 + 2),
        ("cccccccccc", 3 + 5),
        ("cccccdcccc", 3 + 2),
        ("cccdcccccc", 3),
        ("cc", 2),
    ],
)
async def test_copied_tokens_follow_those_that_were_planned(flags: str, length: int) -> None:
    made, _ = await proposal(flags, DraftPlan(3, ahead=9, copies=9), copies={0: 5, 2: 2, 3: 1})
    assert len(made.tokens) == len(made.sources) == len(made.copied) == length
    assert made.copied == [kind == "c" for kind in flags[:length]]


async def test_there_are_no_more_than_the_target_takes() -> None:
    made, _ = await proposal("c" * 30, DraftPlan(3, copies=30), copies={0: 30})
    assert len(made.tokens) == 10


async def test_without_copies_in_the_plan_none_follow() -> None:
    made, policy = await proposal("cccccc", DraftPlan(3), copies={0: 5})
    assert len(made.tokens) == 3
    assert not policy.asked


@pytest.mark.parametrize(
    ("flags", "asked"),
    [("cccccc", (0, 7)), ("dcdccc", (2, 0)), ("dccccc", (1, 2)), ("dddccc", (3, 0))],
)
async def test_what_lies_before_decides(flags: str, asked: tuple[int, int]) -> None:
    """All but the flags of the tokens before is counted, and those of output."""
    _, policy = await proposal(flags, DraftPlan(3, copies=9), run=4)
    assert policy.asked == [asked]


async def test_copies_alone_take_the_place_of_a_run() -> None:
    plan = DraftPlan(0, run=2, copies=9)
    made, policy = await proposal("cccdcc", plan, copies={0: 5}, run=2)
    assert (len(made.tokens), made.copies_alone, made.missed, made.run) == (3, True, False, 2)
    assert policy.told == [Copying(True, ready=3, run=2)]
    made, _ = await proposal("dccc", plan, copies={0: 5})
    assert (len(made.tokens), made.copies_alone, made.missed) == (0, True, False)


@pytest.mark.parametrize(
    ("flags", "bonus"), [("ddd", True), ("dddd", False), ("dddc", True), ("ccccccd", False)]
)
async def test_a_bonus_takes_the_place_of_a_copied_token_alone(flags: str, bonus: bool) -> None:
    """It is that token as often as that would be accepted. Drawn ones have laws of their own."""
    for bonus_free in (False, True):
        made, _ = await proposal(
            flags, DraftPlan(3, copies=3), copies={0: 3}, bonus_free=bonus_free
        )
        assert made.want_bonus is (bonus or bonus_free)
