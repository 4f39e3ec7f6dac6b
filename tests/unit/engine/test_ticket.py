"""What the event loop holds of a job: one answer or several, an error, an end."""

from __future__ import annotations

import asyncio

import pytest

from outrider.engine.ticket import Done, RoundTimings, Ticket, Withdrawn
from outrider.errors import InternalFailure

TIMINGS = RoundTimings(queue_us=1, forward_us=2, sampling_us=3, batch_size=4)


def answer(result: int, *, last: bool = False) -> Done[int]:
    return Done(result, TIMINGS, last)


async def always(ticket: Ticket[int]) -> bool:
    return True


@pytest.fixture
async def ticket() -> Ticket[int]:
    return Ticket(always)


async def test_one_answer(ticket: Ticket[int]) -> None:
    ticket.deliver(answer(1, last=True))
    assert (await ticket.result()).result == 1
    assert ticket.future.done()
    assert not ticket.abandoned


async def test_answers_come_in_order(ticket: Ticket[int]) -> None:
    for number in range(5):
        ticket.deliver(answer(number, last=number == 4))
    assert [done.result async for done in ticket.answers()] == [0, 1, 2, 3, 4]


async def test_the_result_is_the_last_answer(ticket: Ticket[int]) -> None:
    for number in range(5):
        ticket.deliver(answer(number, last=number == 4))
    assert (await ticket.result()).result == 4


async def test_the_future_stands_for_the_next_answer(ticket: Ticket[int]) -> None:
    first = ticket.future
    assert not first.done()
    ticket.deliver(answer(1))
    ticket.deliver(answer(2, last=True))
    finished, _ = await asyncio.wait([first])
    assert finished == {first}
    assert ticket.future is first, "until it is taken"
    assert ticket.take().result == 1
    assert ticket.future.done()
    assert ticket.take().result == 2
    assert ticket.take().result == 2, "nothing comes after the last"


async def test_an_error_comes_behind_the_answers(ticket: Ticket[int]) -> None:
    ticket.deliver(answer(1))
    ticket.fail(InternalFailure("x"))
    answers = ticket.answers()
    assert (await anext(answers)).result == 1
    with pytest.raises(InternalFailure):
        await anext(answers)
    with pytest.raises(InternalFailure):
        ticket.take()


async def test_a_withdrawn_job(ticket: Ticket[int]) -> None:
    assert await ticket.withdraw()
    assert ticket.abandoned
    with pytest.raises(Withdrawn):
        await ticket.result()


async def test_a_cancelled_wait_abandons_the_job(ticket: Ticket[int]) -> None:
    waiter = asyncio.create_task(ticket.result())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert ticket.abandoned
    ticket.deliver(answer(1, last=True))
    await asyncio.sleep(0)


async def test_a_job_is_abandoned_though_an_answer_lies_there(ticket: Ticket[int]) -> None:
    ticket.deliver(answer(1))
    await asyncio.sleep(0)
    assert not ticket.abandoned
    ticket.abandon()
    assert ticket.abandoned
    assert ticket.take().result == 1
    with pytest.raises(asyncio.CancelledError):
        await ticket.future


async def test_whoever_has_to_know_is_told_of_an_end_though_an_answer_lies_there() -> None:
    told: list[Ticket[int]] = []
    for answers in (0, 1):
        ticket: Ticket[int] = Ticket(always, on_abandoned=told.append)
        for _ in range(answers):
            ticket.hand_in(answer(1))
        ticket.abandon()
        await asyncio.sleep(0)
        assert told.pop() is ticket


def test_a_closed_event_loop_is_no_harm() -> None:
    async def make() -> Ticket[int]:
        return Ticket(always)

    ticket = asyncio.run(make())
    ticket.deliver(answer(1, last=True))
    ticket.fail(InternalFailure("x"))
