"""What drafting under way does when later rounds come, forward by forward."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from draft_service.draft_job import DraftJob, DraftResult, DraftTerms
from draft_service.draft_work import draft
from draft_service.orders import EndDrafting, GoOn, TakeUp
from draft_service.proposal import CandidateCut, DraftRule
from draft_service.reach import Reach
from outrider.engine.handles import HandleTable, StateLost
from outrider.engine.loop import Done, ModelLoop
from outrider.engine.sampling_options import SamplingOptions
from outrider.prefix import TokenPrefix
from tests.unit.engine.loop.counting import VOCABULARY, GatedModel

OWNER = "stream"
PROMPT = [1, 2, 3]
"""The model counts on in a circle: 4, 5, 1, 2, 3, …"""
TERMS = DraftTerms(
    SamplingOptions(temperature=0.0),
    DraftRule.DRAWN,
    derived_seed=None,
    prompt_length=3,
    vocabulary_size=VOCABULARY,
    committed_vocabulary_size=VOCABULARY,
)

Result = DraftResult | StateLost


@dataclass
class Draft:
    """A model loop that drafts for one stream."""

    model: GatedModel = field(default_factory=GatedModel)

    def __post_init__(self) -> None:
        self.handles = HandleTable(self.model.new_sequence, max_handles=4)
        self.handle_id = self.handles.open(None, owner=OWNER, scope=b"")
        self.loop: ModelLoop[DraftJob, Result] = ModelLoop(
            self.model,
            partial(draft, model=self.model, handles=self.handles, cut=CandidateCut()),
        )
        self.loop.start()

    def job(self, token_ids: list[int], *, until: int, base: int = 0, **fields: Any) -> DraftJob:
        """That commits `token_ids`; `fields` as of Reach."""
        length = len(token_ids)
        return DraftJob(
            fields.pop("serial", 1),
            self.handle_id,
            OWNER,
            TERMS,
            base_length=base,
            prefix_digest=TokenPrefix(token_ids).digest(base),
            committed_token_ids=token_ids[base:],
            known=[],
            reach=Reach(
                **{
                    "number": 1,
                    "committed_length": length,
                    "together_until": length,
                    "until": until,
                    **fields,
                }
            ),
        )

    def order(self, action: Callable[[HandleTable], Any]) -> None:
        """To be taken after the forward in progress."""
        self.loop.request(partial(action, self.handles))


@pytest.fixture
async def drafting() -> AsyncIterator[Draft]:
    drafting = Draft()
    yield drafting
    drafting.model.let_run()
    await drafting.loop.close()
    assert not drafting.handles.orders


def ids(done: Done[Result]) -> list[int]:
    assert isinstance(done.result, DraftResult)
    return [each.token.token_id for each in done.result.tokens]


async def test_another_job_is_in_the_very_next_forward(drafting: Draft) -> None:
    model = drafting.model
    answers = drafting.loop.submit(drafting.job(PROMPT, until=50)).answers()
    model.let_run(1)
    assert ids(await anext(answers)) == [4]
    await model.wait_until_running()
    await model.wait_until_running()
    other = drafting.job([*PROMPT, 5], until=6, base=3, serial=2, number=2)
    drafting.order(TakeUp(other))
    model.let_run()
    assert ids(await anext(answers)) == [5]
    replaced = await anext(answers)
    assert isinstance(replaced.result, DraftResult)
    assert (replaced.result.number, replaced.result.replaced) == (1, True)
    assert not replaced.last
    first, last = await anext(answers), await anext(answers)
    assert ids(first) + ids(last) == [1, 2]
    assert isinstance(last.result, DraftResult)
    assert (last.result.number, last.result.serial) == (2, 2)
    assert last.last
    # The prompt and two tokens of the first job, then the two of the other: none in vain.
    assert model.batches == [[3], [1], [1], [1]]


async def test_the_last_of_several_jobs_is_taken_up(drafting: Draft) -> None:
    model = drafting.model
    ticket = drafting.loop.submit(drafting.job(PROMPT, until=50, together_until=50))
    await model.wait_until_running()
    for number, first in ((2, 1), (3, 5)):
        drafting.order(
            TakeUp(drafting.job([*PROMPT, first], until=5, base=3, serial=number, number=number))
        )
    model.let_run()
    numbers = [done.result.number async for done in ticket.answers()]  # type: ignore[union-attr]
    assert numbers == [1, 3]
    assert model.batches == [[3], [1]]


async def test_drafting_that_is_ended_gives_what_it_has(drafting: Draft) -> None:
    model = drafting.model
    ticket = drafting.loop.submit(drafting.job(PROMPT, until=50, together_until=50))
    await model.wait_until_running()
    model.let_run(1)
    await model.wait_until_running()
    drafting.order(EndDrafting(drafting.handle_id, OWNER))
    model.let_run()
    done = await ticket.result()
    assert ids(done) == [4, 5]
    assert model.forwards == 2
    assert isinstance(done.result, DraftResult)
    assert done.result.kept_length == 4


async def test_gone_on_with_it_reads_nothing_again(drafting: Draft) -> None:
    model = drafting.model
    answers = drafting.loop.submit(drafting.job(PROMPT, until=50, together_until=4)).answers()
    await model.wait_until_running()
    model.let_run(1)
    assert ids(await anext(answers)) == [4]
    await model.wait_until_running()
    reach = Reach(2, committed_length=4, together_until=7, until=8)
    drafting.order(GoOn(OWNER, reach))
    model.let_run()
    rest = [done async for done in answers]
    # The forward in progress was begun by the round before.
    assert [ids(done) for done in rest] == [[5], [1, 2], [3]]
    assert rest[-1].last
    assert model.batches == [[3], [1], [1], [1], [1]]


async def test_orders_find_nobody_when_drafting_has_ended(drafting: Draft) -> None:
    drafting.model.let_run()
    job = drafting.job(PROMPT, until=4)
    await drafting.loop.submit(job).result()
    assert not TakeUp(job)(drafting.handles)
    assert not GoOn(OWNER, job.reach)(drafting.handles)
    EndDrafting(drafting.handle_id, OWNER)(drafting.handles)
    done = await drafting.loop.submit(replace(job, base_length=3, prefix_digest=1)).result()
    assert done.result == StateLost(0)


async def test_a_job_taken_up_may_find_its_state_lost(drafting: Draft) -> None:
    model = drafting.model
    ticket = drafting.loop.submit(drafting.job(PROMPT, until=50, together_until=50))
    await model.wait_until_running()
    drafting.order(TakeUp(replace(drafting.job([4, 5], until=9), base_length=9)))
    model.let_run()
    answers = [done async for done in ticket.answers()]
    assert answers[-1].result == StateLost(3)
    assert [done.last for done in answers] == [False, True]
