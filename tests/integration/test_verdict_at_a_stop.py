"""A verdict ends at a stop id, and so does the state that it leaves."""

from __future__ import annotations

import pytest

from outrider.rpc.channel import open_channel
from outrider.testing.cluster import WorkerPlan, start_target
from outrider.testing.scripted import ScriptedModel
from outrider.testing.streams import open_verify, verify_round
from outrider.v1 import common_pb2

SIZE = 8
EOS = 7
PROMPT = [1, 2, 3]


@pytest.mark.parametrize("place", [0, 1, 3])
async def test_the_kept_length_is_the_prompt_and_what_was_output(place: int) -> None:
    chain = [4, 4, 4, 4]
    chain[place] = EOS

    def likes_the_chain(token_ids: object) -> list[float]:
        step = len(token_ids) - len(PROMPT)  # type: ignore[arg-type]
        wanted = chain[step] if step < len(chain) else 5
        return [20.0 if token_id == wanted else 0.0 for token_id in range(SIZE)]

    server = await start_target(WorkerPlan(ScriptedModel(likes_the_chain, vocabulary_size=SIZE)))
    async with open_channel(server.rpc.address) as channel:
        stream = await open_verify(
            channel,
            sampling=common_pb2.SamplingParams(temperature=0, seed=1, stop_token_ids=[EOS]),
            prompt_length=len(PROMPT),
        )
        drafts = [common_pb2.DraftToken(token_id=token_id) for token_id in chain]
        verdict = (await stream.ask(verify_round(1, PROMPT, drafts=drafts))).verdict
        await stream.half_close()
    await server.stop(0)
    assert list(verdict.output_token_ids) == chain[: place + 1]
    assert verdict.accepted == place + 1
    assert verdict.handle.length == len(PROMPT) + place + 1
