"""Rounds that wait: who gives way, and what is said meanwhile."""

from __future__ import annotations

from outrider.testing.streams import verify_round
from tests.integration.verify_streams import (
    PROMPT,
    Gate,
    cold,
    decided,
    opened,
    serving,
    status,
    until,
)


async def test_waiting_rounds_give_way_to_the_newest() -> None:
    gate = Gate()
    async with serving(gate.model) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT))
        await gate.reached()
        await stream.send(*(verify_round(n, [*PROMPT, n], base=3) for n in range(2, 7)))
        for number in range(2, 6):
            answer = await stream.read()
            assert answer.round_number == number
            assert answer.HasField("superseded")
        gate.opened.set()
        begun, newest = await stream.read(), await stream.read()
        assert (begun.round_number, newest.round_number) == (1, 6)
        assert gate.model.forwards == 2
        assert (await status(channel)).rounds == 2
        assert decided(begun) == await cold(channel, PROMPT)
        assert decided(newest) == await cold(channel, [*PROMPT, 6])


async def test_a_round_waiting_for_the_model_gives_way() -> None:
    gate = Gate()
    async with serving(gate.model) as channel:
        busy, stream = await opened(channel), await opened(channel)
        # Its state is made before the model is busy.
        await until(channel, lambda s: s.open_streams == 2)
        await busy.send(verify_round(1, PROMPT))
        await gate.reached()
        await stream.send(verify_round(1, PROMPT), verify_round(2, [*PROMPT, 4]))
        answer = await stream.read()
        assert answer.round_number == 1
        assert answer.HasField("superseded")
        gate.opened.set()
        answer = await stream.read()
        assert answer.round_number == 2
        assert decided(answer) == await cold(channel, [*PROMPT, 4])


async def test_a_slow_forward_is_reported_until_it_ends() -> None:
    gate = Gate()
    async with serving(gate.model) as channel:
        stream = await opened(channel)
        await stream.send(verify_round(7, PROMPT))
        reports = [await stream.read(), await stream.read()]
        assert all(report.HasField("progress") for report in reports)
        assert all(report.round_number == 7 for report in reports)
        assert 0 < reports[0].progress.elapsed_ms < reports[1].progress.elapsed_ms
        gate.opened.set()
        assert decided(await stream.ask(verify_round(8, PROMPT))) == await cold(channel, PROMPT)
