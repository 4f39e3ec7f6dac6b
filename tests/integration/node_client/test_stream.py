"""What the Node client makes of a stream: output, options, broken streams, errors, its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status

from outrider.v1 import generation_pb2, generation_pb2_grpc
from tests.integration.node_client.process import PROCESS_LIMIT_S, NodeClient, outcome

TEXTS = ("Grüße", ", ", "世界", " 🛰️")


@dataclass
class Service(generation_pb2_grpc.GenerationServiceServicer):
    """Streams one chunk for each text after the resumed ones; a test may step in before each."""

    before_chunk: Callable[[int, aio.ServicerContext], Awaitable[None]] | None = None
    requests: list[generation_pb2.GenerateRequest] = field(default_factory=list)

    async def Generate(  # noqa: N802
        self, request: generation_pb2.GenerateRequest, context: aio.ServicerContext
    ) -> AsyncIterator[generation_pb2.GenerateResponse]:
        self.requests.append(request)
        for offset in range(len(request.output_token_ids), len(TEXTS)):
            if self.before_chunk is not None:
                await self.before_chunk(offset, context)
            yield generation_pb2.GenerateResponse(
                chunk=generation_pb2.OutputChunk(
                    offset=offset, token_ids=[100 + offset], text=TEXTS[offset]
                )
            )
        yield generation_pb2.GenerateResponse(
            summary=generation_pb2.GenerationSummary(
                finish_reason=generation_pb2.FINISH_REASON_STOP,
                text="!",
                usage=generation_pb2.Usage(prompt_tokens=7, output_tokens=4),
                speculation=generation_pb2.SpeculationStats(
                    rounds=2, draft_tokens=8, accepted_tokens=2
                ),
                seed=2**64 - 1,
                model="scripted",
            )
        )


Serve = Callable[[Service], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server on a free port and gives its address."""
    servers: list[aio.Server] = []

    async def start(service: Service) -> str:
        server = aio.server()
        servers.append(server)
        generation_pb2_grpc.add_GenerationServiceServicer_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        await server.stop(None)


async def test_text_on_standard_output_statistics_on_standard_error(
    serve: Serve, node: NodeClient
) -> None:
    service = Service()
    options = ["--max-new-tokens", "9", "--temperature", "0", "--seed", str(2**64 - 1)]
    code, output, errors = await node.run("--address", await serve(service), *options, "Hi, world")

    assert (code, output) == (0, "Grüße, 世界 🛰️!")
    assert "model scripted, seed 18446744073709551615, ended by FINISH_REASON_STOP" in errors
    assert "7 in, 4 out" in errors
    assert "accepted 2 (25.0 %)" in errors
    [request] = service.requests
    assert request.chat.messages[0].content == "Hi, world"
    assert request.max_new_tokens == 9
    assert request.sampling.HasField("temperature")
    assert request.sampling.temperature == 0
    assert request.sampling.seed == 2**64 - 1


async def test_options_that_are_not_given_stay_unset(serve: Serve, node: NodeClient) -> None:
    service = Service()

    await node.run("--address", await serve(service), "--raw", "Once")

    [request] = service.requests
    assert request.text == "Once"
    assert not request.HasField("max_new_tokens")
    assert not request.sampling.ListFields()


async def test_text_is_printed_as_it_comes(serve: Serve, node: NodeClient) -> None:
    first_was_read = asyncio.Event()

    async def wait_for_reader(offset: int, context: aio.ServicerContext) -> None:
        if offset > 0:
            await first_was_read.wait()

    process = await node.start("--address", await serve(Service(wait_for_reader)), "Hi")
    assert process.stdout is not None
    first = TEXTS[0].encode()
    assert await asyncio.wait_for(process.stdout.readexactly(len(first)), PROCESS_LIMIT_S) == first
    first_was_read.set()

    code, rest, _ = await outcome(process)

    assert (code, rest) == (0, ", 世界 🛰️!")


async def test_a_broken_stream_is_taken_up_again(serve: Serve, node: NodeClient) -> None:
    breaks = [(0, "at once"), (2, "half-way")]

    async def break_off(offset: int, context: aio.ServicerContext) -> None:
        if breaks and offset == breaks[0][0]:
            _, message = breaks.pop(0)
            await context.abort(grpc.StatusCode.UNAVAILABLE, message)

    service = Service(break_off)
    process = await node.start("--address", await serve(service), "--seed", "3", "Hi")

    code, output, errors = await outcome(process)

    assert (code, output) == (0, "Grüße, 世界 🛰️!")
    assert "at once" in errors
    assert "half-way" in errors
    assert [list(request.output_token_ids) for request in service.requests] == [[], [], [100, 101]]
    assert {request.sampling.seed for request in service.requests} == {3}


async def test_details_of_an_error_are_shown(serve: Serve, node: NodeClient) -> None:
    info, retry = any_pb2.Any(), any_pb2.Any()
    info.Pack(
        error_details_pb2.ErrorInfo(
            reason="INVALID_FIELD",
            domain="outrider",
            metadata={"field": "sampling.temperature", "allowed": "0 to 100"},
        )
    )
    retry.Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1)))
    status = status_pb2.Status(code=3, message="wrong temperature", details=[retry, info])

    async def refuse(offset: int, context: aio.ServicerContext) -> None:
        refusal = rpc_status.to_status(status)
        await context.abort(refusal.code, refusal.details, refusal.trailing_metadata)

    service = Service(refuse)
    process = await node.start("--address", await serve(service), "--temperature=-1", "Hi")

    code, output, errors = await outcome(process)

    assert (code, output) == (1, "")
    assert "INVALID_ARGUMENT: wrong temperature" in errors
    assert "INVALID_FIELD (outrider)" in errors
    assert "field: sampling.temperature" in errors
    assert "allowed: 0 to 100" in errors
    assert len(service.requests) == 1


async def test_a_missing_token_is_an_error(serve: Serve, node: NodeClient) -> None:
    class Skipping(Service):
        async def Generate(self, request, context):  # type: ignore[no-untyped-def]  # noqa: N802
            async for response in super().Generate(request, context):
                if response.chunk.offset != 1:
                    yield response

    code, output, errors = await node.run("--address", await serve(Skipping()), "Hi")

    assert (code, output) == (1, TEXTS[0])
    assert "DATA_LOSS" in errors


async def test_the_deadline_ends_a_silent_call(serve: Serve, node: NodeClient) -> None:
    async def stay_silent(offset: int, context: aio.ServicerContext) -> None:
        await asyncio.Event().wait()

    address = await serve(Service(stay_silent))

    code, _, errors = await node.run("--address", address, "--deadline", "1", "Hi")

    assert code == 1
    assert "DEADLINE_EXCEEDED" in errors


async def test_an_interrupt_cancels_the_call(serve: Serve, node: NodeClient) -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def wait_for_cancel(offset: int, context: aio.ServicerContext) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    process = await node.start("--address", await serve(Service(wait_for_cancel)), "Hi")
    await asyncio.wait_for(reached.wait(), PROCESS_LIMIT_S)
    process.send_signal(2)

    code, _, _ = await outcome(process)

    assert code == 130
    await asyncio.wait_for(cancelled.wait(), PROCESS_LIMIT_S)


async def test_nobody_there(node: NodeClient) -> None:
    process = await node.start("--address", "127.0.0.1:1", "--retries", "0", "Hi")

    code, output, errors = await outcome(process)

    assert (code, output) == (1, "")
    assert "UNAVAILABLE" in errors


@pytest.mark.parametrize("arguments", [[], ["--nonsense", "Hi"], ["--seed", "x", "Hi"]])
async def test_a_wrong_command_line_shows_the_usage(node: NodeClient, arguments: list[str]) -> None:
    code, output, errors = await node.run(*arguments)

    assert (code, output) == (2, "")
    assert "Usage: node generate.js" in errors
