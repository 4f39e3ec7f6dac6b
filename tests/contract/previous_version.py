"""A peer that speaks version 1 of the contract: a gRPC server between two that are newer.

Every message passes through the messages that version 1 had, unknown fields left out, so that each
side sees of the other what a peer of version 1 would have sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode, aio

from outrider.rpc.channel import open_channel
from outrider.rpc.limits import server_options

RECORDED = Path(__file__).parent / "recorded" / "protocol_1.binpb"
VERSION = 1


class RecordedContract:
    """The messages and services of version 1, by full name."""

    def __init__(self) -> None:
        self._pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(RECORDED.read_bytes()).file:
            self._pool.Add(file)

    def method(self, path: str) -> MethodDescriptor | None:
        """The method of a call such as `/outrider.v1.TargetService/Verify`, if there was one."""
        _, service, name = path.split("/")
        try:
            found: MethodDescriptor = self._pool.FindServiceByName(service).methods_by_name[name]
        except KeyError:
            return None
        return found

    def understood(self, data: bytes, descriptor: Any) -> Message:
        """What a peer of version 1 reads in a message."""
        message: Message = GetMessageClass(descriptor).FromString(data)
        message.DiscardUnknownFields()
        return message


class PreviousVersion(grpc.GenericRpcHandler):
    """Stands before one server.

    `refused`: versions that were named to it, and that a peer of version 1 does not speak.
    """

    def __init__(self, address: str) -> None:
        """`address`: of the server behind it."""
        self._contract = RecordedContract()
        self._channel = open_channel(address)
        self._server = aio.server(options=server_options())
        self._server.add_generic_rpc_handlers([self])
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        self.refused: list[int] = []
        self.answers = 0

    @property
    def address(self) -> str:
        """Where it listens, host:port."""
        return f"127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)
        await self._channel.close()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """Passes on the calls that version 1 had, and those of health as they are."""
        path = details.method
        if path.startswith("/grpc.health."):
            return grpc.unary_stream_rpc_method_handler(self._passed_on(path))
        method = self._contract.method(path)
        return None if method is None else self._handler(path, method)

    def _handler(self, path: str, method: MethodDescriptor) -> Any:
        """All kinds of calls are passed on as streams: on the wire there is no difference."""

        async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            call = self._channel.stream_stream(path)(self._heard(requests, method, context))
            try:
                async for data in call:
                    answer = self._contract.understood(data, method.output_type)
                    if self._fits(answer):
                        self.answers += 1
                        yield answer.SerializeToString()
            except aio.AioRpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                await context.abort(error.code(), error.details() or "")
            finally:
                call.cancel()

        return grpc.stream_stream_rpc_method_handler(stream)

    def _passed_on(self, path: str) -> Any:
        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            async for data in self._channel.unary_stream(path)(request):
                yield data

        return stream

    async def _heard(
        self, requests: AsyncIterator[bytes], method: MethodDescriptor, context: Any
    ) -> AsyncIterator[bytes]:
        async for data in requests:
            request: Any = self._contract.understood(data, method.input_type)
            if _holds(request, "open") and request.open.protocol_version != VERSION:
                self.refused.append(request.open.protocol_version)
                await context.abort(StatusCode.UNIMPLEMENTED, "only version 1 is spoken here")
            yield request.SerializeToString()

    def _fits(self, answer: Any) -> bool:
        """Whether a peer of version 1 says this, and would go on after hearing it."""
        if answer.DESCRIPTOR.name == "GetModelResponse" and answer.protocol_version != VERSION:
            self.refused.append(answer.protocol_version)
        # In version 1 progress was always that of a Round.
        return not (_holds(answer, "progress") and answer.round_number == 0)


def _holds(message: Any, field: str) -> bool:
    return field in message.DESCRIPTOR.fields_by_name and message.HasField(field)
