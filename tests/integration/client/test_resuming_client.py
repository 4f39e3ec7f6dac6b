"""The resuming client between servers that break, refuse and answer as a test says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import grpc
import pytest

from outrider.client import Patience, RequestError, ResumingClient, Retry, UnreachableError
from outrider.errors import Exhausted, InvalidRequest, OutriderError, PoolUnavailable
from outrider.rpc.status import DETAILS_KEY, status_code, status_details
from outrider.v1 import common_pb2, generation_pb2, generation_pb2_grpc

ORIGIN = generation_pb2.GenerationOrigin(model="m", weights_digest="w", seed=77)
WORDS = ["zero ", "one ", "two ", "three ", "four "]


@dataclass
class Act:
    """What one call gives: tokens up to a length, then an error, a pause, or the end."""

    until: int = len(WORDS)
    error: OutriderError | None = None
    lost: bool = False
    """The call ends as if the connection had."""
    pause_s: float = 0.0


@dataclass
class Play(generation_pb2_grpc.GenerationServiceServicer):
    """A server that plays one act for each call, the last again and again."""

    acts: list[Act]
    requests: list[generation_pb2.GenerateRequest] = field(default_factory=list)
    address: str = ""

    def Generate(  # noqa: N802
        self, request: generation_pb2.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[generation_pb2.GenerateResponse]:
        act = self.acts[min(len(self.requests), len(self.acts) - 1)]
        self.requests.append(request)
        first = len(request.output_token_ids)
        for place in range(first, act.until):
            yield generation_pb2.GenerateResponse(
                chunk=generation_pb2.OutputChunk(
                    offset=place,
                    token_ids=[place],
                    text=WORDS[place],
                    origin=ORIGIN if place == first else None,
                )
            )
        time.sleep(act.pause_s)
        if act.lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if act.error is not None:
            context.set_trailing_metadata(((DETAILS_KEY, status_details(act.error)),))
            context.abort(status_code(act.error), act.error.message)
        yield generation_pb2.GenerateResponse(
            summary=generation_pb2.GenerationSummary(text="end", model=self.address)
        )


@contextmanager
def playing(*plays: list[Act]) -> Iterator[list[Play]]:
    """A server for each list of acts."""
    with ExitStack() as stack:
        servers = []
        for acts in plays:
            server = grpc.server(futures.ThreadPoolExecutor(2))
            play = Play(acts)
            generation_pb2_grpc.add_GenerationServiceServicer_to_server(play, server)
            play.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            server.start()
            stack.callback(lambda server=server: server.stop(None).wait())
            servers.append(play)
        yield servers


@dataclass
class Heard:
    """What came, and what was tried."""

    text: str = ""
    model: str = ""
    retries: list[Retry] = field(default_factory=list)


def ask(
    addresses: list[str],
    *,
    patience: Patience | None = None,
    timeout_s: float | None = None,
    heard: Heard | None = None,
    **fields: object,
) -> Heard:
    heard = heard or Heard()
    request = generation_pb2.GenerateRequest(text="count", **fields)  # type: ignore[arg-type]
    with ResumingClient(addresses, patience=patience, on_retry=heard.retries.append) as client:
        for event in client.generate(request, timeout_s=timeout_s):
            heard.text += event.text
            if isinstance(event, generation_pb2.GenerationSummary):
                heard.model = event.model
    return heard


WHOLE = "".join(WORDS) + "end"


@pytest.mark.parametrize("until", range(len(WORDS) + 1))
def test_the_next_server_goes_on_where_the_first_stopped(until: int) -> None:
    with playing([Act(until, lost=True)], [Act()]) as (first, second):
        heard = ask([first.address, second.address])
    assert (heard.text, heard.model) == (WHOLE, second.address)
    assert [retry.delivered for retry in heard.retries] == [until]
    assert list(second.requests[0].output_token_ids) == list(range(until))
    assert second.requests[0].weights_digest == ("w" if until else "")


def test_a_draw_goes_on_with_the_seed_and_by_the_rule_it_began_with() -> None:
    with playing([Act(2, lost=True), Act(4, lost=True), Act()]) as (server,):
        assert ask([server.address]).text == WHOLE
    first, second, third = (request.sampling for request in server.requests)
    assert not first.HasField("seed")
    for resumed in (second, third):
        assert resumed.seed == ORIGIN.seed
        assert resumed.verification == common_pb2.VERIFICATION_REJECTION


def test_an_empty_pool_is_waited_for() -> None:
    empty = Act(3, error=PoolUnavailable("no target is ready", retry_after_s=0.01))
    with playing([empty, empty, Act()]) as (server,):
        assert ask([server.address]).text == WHOLE
    assert [len(request.output_token_ids) for request in server.requests] == [0, 3, 3]


def test_a_full_server_is_asked_again_when_it_said() -> None:
    full = Act(0, error=Exhausted("all places are taken", retry_after_s=0.3))
    with playing([full, Act()]) as (server,):
        began = time.monotonic()
        heard = ask([server.address])
    assert heard.text == WHOLE
    assert heard.retries[0].pause_s >= 0.3
    assert time.monotonic() - began >= 0.3


def test_a_full_server_is_left_for_one_with_room() -> None:
    full = Act(0, error=Exhausted("all places are taken", retry_after_s=20.0))
    with playing([full], [Act()]) as (first, second):
        assert ask([first.address, second.address]).model == second.address


def test_a_wrong_request_is_sent_once() -> None:
    wrong = Act(1, error=InvalidRequest("text", "better"))
    heard = Heard()
    refused = pytest.raises(RequestError, match="INVALID_ARGUMENT")
    with playing([wrong], [Act()]) as (first, second), refused:
        ask([first.address, second.address], heard=heard)
    assert (heard.text, heard.retries) == (WORDS[0], [])
    assert not second.requests


def test_patience_ends_and_the_server_has_the_last_word() -> None:
    empty = Act(2, error=PoolUnavailable("no target is ready"))
    heard = Heard()
    with playing([empty]) as (server,), pytest.raises(RequestError, match="no target is ready"):
        ask([server.address], patience=Patience(total_s=0.3), heard=heard)
    assert heard.text == "".join(WORDS[:2])
    assert len(server.requests) > 1


def test_the_deadline_is_for_all_attempts_together() -> None:
    with playing([Act(2, lost=True, pause_s=0.2)]) as (server,), pytest.raises(RequestError):
        ask([server.address], timeout_s=1.5)
    assert 2 <= len(server.requests) <= 8


def test_a_server_that_hangs_is_left_at_the_deadline() -> None:
    late = pytest.raises(RequestError, match="DEADLINE_EXCEEDED")
    with playing([Act(1, pause_s=1.0)]) as (server,), late:
        ask([server.address], timeout_s=0.3)


def test_nobody_there_is_said_at_once_and_a_server_that_comes_is_found() -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        ask(["127.0.0.1:1"])
    with playing([Act()]) as (server,):
        assert ask(["127.0.0.1:1", server.address]).text == WHOLE


def test_an_output_that_was_begun_elsewhere_goes_on() -> None:
    with playing([Act(4, lost=True), Act()]) as (server,):
        heard = ask([server.address], output_token_ids=[0, 1])
    assert heard.text == "two three four end"
    assert [len(request.output_token_ids) for request in server.requests] == [2, 4]
