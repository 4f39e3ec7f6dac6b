"""KV state behind a Verify stream: rolled back, lost, leased, given back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from grpc import aio

from outrider.engine.model import Model
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import verify_round
from outrider.v1 import common_pb2
from tests.integration.verify_streams import (
    PROMPT,
    SIZE,
    Gate,
    cold,
    decided,
    drawn,
    opened,
    random_laws,
    serving,
    status,
    table,
    tiny,
    until,
)


@pytest.mark.parametrize("make", [table, tiny])
async def test_growing_and_rolling_back_decide_what_fresh_state_decides(
    make: Callable[[], Model],
) -> None:
    generator = random.Random(3)
    async with serving(make()) as channel:
        stream = await opened(channel)
        token_ids, length = list(PROMPT), 0
        accepted = 0
        for number in range(1, 31):
            # Every third round goes back and takes another way.
            base = generator.randint(0, length) if number % 3 == 0 else length
            if number % 3 == 0:
                added = [generator.randrange(SIZE) for _ in range(3)]
                token_ids = [*token_ids[:base], *added]
            drafts = drawn(token_ids, random_laws(generator, number % 5, SIZE))
            answer = await stream.ask(verify_round(number, token_ids, base=base, drafts=drafts))
            verdict = decided(answer)
            assert verdict == await cold(channel, token_ids, drafts=drafts)
            length = answer.verdict.handle.length
            assert length == len(token_ids) + verdict[0]
            assert verdict[2] == ""
            token_ids += [*verdict[1]]
            accepted += verdict[0]
    assert accepted > 5


async def test_another_prefix_is_lost_state_and_the_replay_decides_the_same() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        await stream.ask(verify_round(1, PROMPT))
        wrong = verify_round(2, [*PROMPT, 4], base=3)
        wrong.round.prefix_digest ^= 1
        answer = await stream.ask(wrong)
        assert answer.round_number == 2
        assert answer.HasField("state_lost")
        assert answer.state_lost.kept_length == 0
        replay = await stream.ask(verify_round(3, [*PROMPT, 4]))
        assert decided(replay) == await cold(channel, [*PROMPT, 4])


async def test_a_base_beyond_the_state_says_how_much_there_is() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        await stream.ask(verify_round(1, PROMPT))
        longer = [*PROMPT, 4, 5, 6]
        answer = await stream.ask(verify_round(2, longer, base=5))
        assert answer.HasField("state_lost")
        assert answer.state_lost.kept_length == 3
        again = await stream.ask(verify_round(3, longer, base=3))
        assert decided(again) == await cold(channel, longer)


async def test_a_state_of_another_scope_or_of_nobody_is_not_found() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel, cache_scope=b"one")
        handle = (await stream.ask(verify_round(1, PROMPT))).verdict.handle
        unknown = common_pb2.KvHandle(replica_id=handle.replica_id, handle_id="0" * 32)
        for fields in ({"handle": handle, "cache_scope": b"two"}, {"handle": unknown}):
            other = await opened(channel, **fields)
            answer = await other.ask(verify_round(1, [*PROMPT, 4], base=3))
            assert answer.HasField("state_lost")
            assert answer.state_lost.kept_length == 0
        kept = await stream.ask(verify_round(2, [*PROMPT, 4], base=3))
        assert kept.HasField("verdict")


async def test_a_restarted_replica_has_lost_its_state_and_decides_the_same() -> None:
    server = await start_target(WorkerPlan(table()))
    address = server.rpc.address
    async with open_channel(address) as channel:
        stream = await opened(channel)
        answer = await stream.ask(verify_round(1, PROMPT))
        verdict, handle = decided(answer), answer.verdict.handle
        await server.stop(0)
    server = await start_target(WorkerPlan(table(), address=address))
    async with open_channel(address) as channel:
        stream = await opened(channel, handle=handle)
        longer = [*PROMPT, *verdict[1]]
        answer = await stream.ask(verify_round(2, longer, base=3))
        assert answer.HasField("state_lost")
        answer = await stream.ask(verify_round(3, PROMPT))
        assert decided(answer) == verdict
        assert answer.verdict.handle.replica_id != handle.replica_id
        await stream.half_close()
    await server.stop(0)


@pytest.mark.parametrize("make", [table, tiny])
async def test_a_round_that_comes_twice_is_decided_once(make: Callable[[], Model]) -> None:
    drafts = drawn(PROMPT, random_laws(random.Random(1), 4, SIZE))
    async with serving(make()) as channel:
        stream = await opened(channel)
        first = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
        again = await stream.ask(verify_round(2, PROMPT, drafts=drafts))
        elsewhere = await (await opened(channel)).ask(verify_round(1, PROMPT, drafts=drafts))
        reopened = await opened(channel, handle=first.verdict.handle)
        taken_over = await reopened.ask(verify_round(1, PROMPT, drafts=drafts))
        assert {decided(a) for a in (first, again, elsewhere, taken_over)} == {decided(first)}
        assert again.verdict.handle == first.verdict.handle
        token_ids = [*PROMPT, *first.verdict.output_token_ids]
        length = first.verdict.handle.length
        following = await reopened.ask(verify_round(2, token_ids, base=length))
        assert decided(following) == await cold(channel, token_ids)


async def test_a_broken_stream_leaves_a_lease_that_the_next_one_takes_up() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        handle = (await stream.ask(verify_round(1, PROMPT))).verdict.handle
        stream.call.cancel()
        await until(channel, lambda s: s.handles_in_use == 0 and s.handles_leased == 1)
        again = await opened(channel, handle=handle)
        answer = await again.ask(verify_round(2, [*PROMPT, 4], base=3))
        assert decided(answer) == await cold(channel, [*PROMPT, 4])
        assert answer.verdict.handle.handle_id == handle.handle_id
        now = await status(channel)
        assert (now.handles_in_use, now.handles_leased, now.open_streams) == (1, 0, 1)


async def test_no_broken_stream_is_taken_for_an_orderly_end() -> None:
    count = 200
    async with serving(table(), max_handles=count) as channel:
        for _ in range(count):
            stream = await opened(channel)
            await stream.ask(verify_round(1, PROMPT))
            stream.call.cancel()
        await until(channel, lambda s: s.open_streams + s.handles_in_use == 0)
        assert (await status(channel)).handles_leased == count


async def test_an_orderly_end_frees_the_state_at_once() -> None:
    async with serving(table()) as channel:
        stream = await opened(channel)
        await stream.ask(verify_round(1, PROMPT))
        assert (await status(channel)).kv_tokens == 3
        await stream.half_close()
        now = await status(channel)
        held = (now.handles_in_use, now.handles_leased, now.kv_tokens, now.open_streams)
        assert held == (0, 0, 0, 0)


async def test_a_lease_ends() -> None:
    async with serving(table(), lease_s=0.05) as channel:
        stream = await opened(channel)
        await stream.ask(verify_round(1, PROMPT))
        stream.call.cancel()
        await until(channel, lambda s: s.handles_in_use + s.handles_leased == 0)
        assert (await status(channel)).kv_tokens == 0


async def test_streams_cancelled_at_any_moment_leave_nothing_behind() -> None:
    generator = random.Random(0)
    model = TableModel(random_table(seed=1), step_time_s=0.002)

    async def broken(channel: aio.Channel) -> None:
        stream = await opened(channel)
        await stream.send(verify_round(1, PROMPT))
        await asyncio.sleep(generator.uniform(0, 0.02))
        stream.call.cancel()

    async with serving(model, max_handles=100, lease_s=0.5) as channel:
        for _ in range(10):
            await asyncio.gather(*(broken(channel) for _ in range(10)))
        await until(channel, lambda s: s.open_streams + s.handles_in_use + s.handles_leased == 0)
        now = await status(channel)
        assert (now.kv_tokens, now.queue_depth) == (0, 0)
        await cold(channel, PROMPT)


async def test_a_stream_that_ends_while_its_state_is_made_leaves_none() -> None:
    gate = Gate()
    async with serving(gate.model) as channel:
        busy = await opened(channel)
        await busy.send(verify_round(1, PROMPT))
        await gate.reached()
        streams = [await opened(channel) for _ in range(5)]
        # Time for the Opens to arrive; their states wait for the model.
        await asyncio.sleep(0.2)
        for stream in streams:
            stream.call.cancel()
        await asyncio.sleep(0.1)
        gate.opened.set()
        assert (await busy.read()).HasField("verdict")
        await until(channel, lambda s: s.handles_in_use == 1 and s.handles_leased == 0)
