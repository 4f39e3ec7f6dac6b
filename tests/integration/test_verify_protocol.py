"""The target's stream as the contract states it: real gRPC, message by message."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import torch
from grpc import aio

from outrider.draft_law import CutLaw
from outrider.engine.model import Model
from outrider.prefix import TokenPrefix
from outrider.randomness import Purpose, derive_seed, draw_word
from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import ScriptedModel, TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.testing.tiny_models import tiny_model
from outrider.v1 import common_pb2, model_pb2, model_pb2_grpc, target_pb2
from target_service.draft_check import InvalidReason

SIZE = 8
SEED = 5
PROMPT = [1, 2, 3]
SAMPLED = common_pb2.SamplingParams(seed=SEED)

Verdict = tuple[int, tuple[int, ...], str]


def table() -> TableModel:
    return TableModel(random_table(seed=1))


def tiny() -> Model:
    return tiny_model(vocabulary_size=SIZE)


@asynccontextmanager
async def serving(model: Model, **plan: Any) -> AsyncIterator[aio.Channel]:
    server = await start_target(WorkerPlan(model, **plan))
    channel = open_channel(server.rpc.address)
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(None)


async def opened(channel: aio.Channel, **fields: Any) -> VerifyStream:
    return await open_verify(
        channel, **{"sampling": SAMPLED, "prompt_length": len(PROMPT), **fields}
    )


async def status(channel: aio.Channel) -> model_pb2.ModelServiceGetStatusResponse:
    stub = model_pb2_grpc.ModelServiceStub(channel)
    return await stub.GetStatus(model_pb2.ModelServiceGetStatusRequest())


async def until(
    channel: aio.Channel, holds: Callable[[model_pb2.ModelServiceGetStatusResponse], bool]
) -> None:
    """Returns once the worker's status is so."""
    for _ in range(2000):
        if holds(await status(channel)):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(await status(channel))


def decided(response: target_pb2.VerifyResponse) -> Verdict:
    assert response.HasField("verdict"), response
    verdict = response.verdict
    return verdict.accepted, tuple(verdict.output_token_ids), verdict.draft_invalid.reason


async def cold(channel: aio.Channel, token_ids: Sequence[int], **fields: Any) -> Verdict:
    """The verdict of the same round on fresh state."""
    stream = await opened(channel)
    verdict = decided(await stream.ask(verify_round(99, token_ids, **fields)))
    await stream.half_close()
    return verdict


def drawn(token_ids: Sequence[int], laws: Sequence[CutLaw]) -> list[common_pb2.DraftToken]:
    """Draft tokens after `token_ids`, each drawn from its law as a draft draws it."""
    prefix = TokenPrefix(token_ids)
    seed = derive_seed(Purpose.DRAFT, seed=SEED, choice_index=0)
    drafts = []
    for law in laws:
        word = draw_word(seed, position=len(prefix), digest=prefix.digest(len(prefix)))
        drafts.append(message(law.draw(word), law.token_ids, law.weights))
        prefix.extend([drafts[-1].token_id])
    return drafts


def message(
    token_id: int, candidate_ids: Sequence[int], weights: Sequence[int]
) -> common_pb2.DraftToken:
    law = common_pb2.Distribution(token_ids=candidate_ids, weights=weights)
    return common_pb2.DraftToken(token_id=token_id, distribution=law)


def random_laws(generator: random.Random, count: int, size: int) -> list[CutLaw]:
    return [
        CutLaw(
            tuple(generator.sample(range(size), 4)),
            tuple(generator.randint(1, 65535) for _ in range(4)),
        )
        for _ in range(count)
    ]


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
        await server.stop(None)
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
    await server.stop(None)


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


class Gate:
    """A model whose forwards wait until they are let through."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self._table = table()
        self.model = ScriptedModel(self._logits, vocabulary_size=SIZE)

    def _logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        assert self.opened.wait(30)
        return self._table.table[token_ids[-2], token_ids[-1]]

    async def reached(self) -> None:
        for _ in range(4000):
            if self.model.forwards:
                return
            await asyncio.sleep(0.005)
        raise AssertionError("no forward has begun")


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


def without_law(good: common_pb2.DraftToken) -> common_pb2.DraftToken:
    return common_pb2.DraftToken(token_id=good.token_id)


def not_drawn(good: common_pb2.DraftToken) -> common_pb2.DraftToken:
    law = good.distribution
    other = next(token_id for token_id in law.token_ids if token_id != good.token_id)
    return message(other, law.token_ids, law.weights)


FAULTS: dict[InvalidReason, Callable[[common_pb2.DraftToken], common_pb2.DraftToken]] = {
    InvalidReason.LAW_MISSING: without_law,
    InvalidReason.LENGTHS_DIFFER: lambda good: message(good.token_id, [good.token_id], [1, 2]),
    InvalidReason.TOO_MANY_CANDIDATES: lambda good: message(good.token_id, range(257), [1] * 257),
    InvalidReason.ID_OUT_OF_RANGE: lambda good: message(
        good.token_id, [good.token_id, SIZE], [1, 1]
    ),
    InvalidReason.DUPLICATE_ID: lambda good: message(good.token_id, [good.token_id] * 2, [1, 1]),
    InvalidReason.WEIGHT_OUT_OF_RANGE: lambda good: message(
        good.token_id, [good.token_id], [65536]
    ),
    InvalidReason.TOKEN_NOT_IN_LAW: lambda good: message(
        good.token_id, [(good.token_id + 1) % SIZE], [1]
    ),
    InvalidReason.NOT_RECOMPUTED: not_drawn,
}


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("reason", InvalidReason)
async def test_drafts_with_a_fault_are_set_aside_and_counted(
    reason: InvalidReason, place: int
) -> None:
    drafts = drawn(PROMPT, random_laws(random.Random(2), 4, SIZE))
    drafts[place] = FAULTS[reason](drafts[place])
    async with serving(table()) as channel:
        stream = await opened(channel)
        answer = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
        assert answer.verdict.draft_invalid.reason == reason
        assert answer.verdict.draft_invalid.position == len(PROMPT) + place
        assert answer.verdict.accepted == 0
        assert answer.verdict.handle.length == len(PROMPT)
        now = await status(channel)
        assert (now.draft_invalid_rounds, now.draft_tokens, now.rounds) == (1, 0, 1)
        assert decided(answer)[:2] == (await cold(channel, PROMPT))[:2]


async def test_an_id_that_does_not_exist_is_an_invalid_draft() -> None:
    async with serving(table()) as channel:
        for token_id in (SIZE, 2**31 - 1, 2**32 - 1):
            draft = common_pb2.DraftToken(token_id=token_id, point_mass=common_pb2.PointMass())
            stream = await opened(channel)
            answer = await stream.ask(verify_round(1, PROMPT, drafts=[draft]))
            assert answer.verdict.draft_invalid.reason == InvalidReason.ID_OUT_OF_RANGE
            assert decided(answer)[:2] == (await cold(channel, PROMPT))[:2]


async def test_a_greedy_target_needs_no_law() -> None:
    model = table()
    best = int(model.table[PROMPT[-2], PROMPT[-1]].argmax())
    greedy = common_pb2.SamplingParams(seed=SEED, temperature=0)
    async with serving(model) as channel:
        stream = await opened(channel, sampling=greedy)
        drafts = [common_pb2.DraftToken(token_id=best)]
        answer = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
        assert answer.verdict.accepted == 1
        assert not answer.verdict.HasField("draft_invalid")
        drafts = [common_pb2.DraftToken(token_id=(best + 1) % SIZE)]
        answer = await stream.ask(verify_round(2, PROMPT, drafts=drafts))
        assert decided(answer) == (0, (best,), "")


async def test_a_token_without_target_mass_is_rejected_at_the_smallest_weight() -> None:
    banned, rare = 0, CutLaw((1, 0), (2047, 1))
    row = [0.0] * SIZE
    row[banned] = -1.0
    model = ScriptedModel(lambda _: row, vocabulary_size=SIZE)
    prefix = TokenPrefix(PROMPT)

    def draws_banned(seed: int) -> bool:
        word = draw_word(
            derive_seed(Purpose.DRAFT, seed=seed, choice_index=0),
            position=len(PROMPT),
            digest=prefix.digest(len(PROMPT)),
        )
        return rare.draw(word) == banned

    seeds = [seed for seed in range(20_000) if draws_banned(seed)]
    assert len(seeds) >= 3
    async with serving(model) as channel:
        for seed in seeds:
            stream = await opened(
                channel, sampling=common_pb2.SamplingParams(seed=seed, top_k=SIZE - 1)
            )
            drafts = [message(banned, rare.token_ids, rare.weights)]
            answer = await stream.ask(verify_round(1, PROMPT, drafts=drafts))
            assert answer.verdict.accepted == 0
            assert not answer.verdict.HasField("draft_invalid")
            assert banned not in answer.verdict.output_token_ids
            await stream.half_close()
