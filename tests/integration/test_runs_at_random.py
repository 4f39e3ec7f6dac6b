"""Whatever a caller does to a run, each token is the one that single rounds give."""

from __future__ import annotations

import random

import pytest
from grpc import aio

from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import TableModel, random_table
from outrider.testing.streams import VerifyStream, open_verify, verify_round
from outrider.v1 import common_pb2, target_pb2

PROMPT = [1, 2, 3]
LENGTH = 400
ROUNDS = 60
SAMPLED = common_pb2.SamplingParams(seed=5, top_k=5)


async def opened(channel: aio.Channel) -> VerifyStream:
    return await open_verify(channel, sampling=SAMPLED, prompt_length=len(PROMPT))


async def single_rounds(stream: VerifyStream) -> list[int]:
    """The whole sequence, token by token."""
    token_ids = list(PROMPT)
    for number in range(1, LENGTH + 1):
        base = len(token_ids) - 1 if number > 1 else 0
        answer = await stream.ask(verify_round(number, token_ids, base=base))
        token_ids += answer.verdict.output_token_ids
    return token_ids


class Caller:
    """Sends rounds from any point of what it knows, and checks every answer."""

    def __init__(self, stream: VerifyStream, truth: list[int], generator: random.Random) -> None:
        self._stream = stream
        self._truth = truth
        self._generator = generator
        self._state_length = 0
        self.known = len(PROMPT)
        self.number = 0
        self.ended: set[int] = set()
        self.last_heard = 0

    async def send(self) -> None:
        """A round from the end of what is known or from before it, mostly with credit."""
        generator = self._generator
        length = self.known
        if generator.random() < 0.3:
            length = generator.randint(len(PROMPT), self.known)
        decode = generator.choice([0, 1, 3, 10, 30])
        decode = max(0, min(decode, len(self._truth) - length - 1))
        base = min(self._state_length, length - 1)
        self.number += 1
        await self._stream.send(
            verify_round(self.number, self._truth[:length], base=base, decode=decode)
        )

    async def hear(self) -> None:
        """One answer."""
        answer: target_pb2.VerifyResponse = await self._stream.read()
        number = answer.round_number
        assert number not in self.ended
        match answer.WhichOneof("answer"):
            case "superseded":
                self.ended.add(number)
                return
            case "state_lost":
                self.ended.add(number)
                self._state_length = answer.state_lost.kept_length
                return
            case "progress":
                return
        assert self.last_heard <= number <= self.number
        self.last_heard = number
        (token_id,) = answer.verdict.output_token_ids
        position = answer.verdict.handle.length
        assert token_id == self._truth[position]
        assert position <= self.known
        self.known = max(self.known, position + 1)
        self._state_length = position
        if answer.verdict.done:
            self.ended.add(number)

    @property
    def owed(self) -> bool:
        """The latest round has not had its last answer."""
        return self.number not in self.ended


@pytest.mark.parametrize("seed", range(4))
async def test_top_ups_at_any_moment_from_anywhere(seed: int) -> None:
    generator = random.Random(seed)
    target = WorkerPlan(TableModel(random_table(seed=1), step_time_s=0.001))
    server = await start_target(target)
    try:
        async with open_channel(server.rpc.address) as channel:
            truth = await single_rounds(await opened(channel))
            caller = Caller(await opened(channel), truth, generator)
            for _ in range(ROUNDS):
                await caller.send()
                for _ in range(generator.choice([0, 0, 1, 2, 8, 100])):
                    if not caller.owed:
                        break
                    await caller.hear()
            while caller.owed:
                await caller.hear()
    finally:
        await server.stop(0)
    assert caller.known > len(PROMPT) + 50
