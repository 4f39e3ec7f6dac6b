"""A small client of GenerationService: blocking calls, readable errors."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Self

import grpc

from outrider.client.errors import ClientError, RequestError, client_error
from outrider.rpc.api_keys import key_metadata
from outrider.rpc.limits import channel_options
from outrider.rpc.status import RemoteError
from outrider.rpc.tls import TlsFiles
from outrider.rpc.watched_files import FilesError
from outrider.settings.addresses import is_loopback
from outrider.v1 import generation_pb2, generation_pb2_grpc

DEFAULT_ADDRESS = "127.0.0.1:7400"
STATUS_TIMEOUT_S = 10.0


class Client:
    """One channel to a coordinator. Use it as a context manager."""

    def __init__(
        self, address: str, *, tls: TlsFiles | None = None, api_key: str | None = None
    ) -> None:
        """`address` is host:port; `tls` with an authority makes the connection TLS.

        Each call shows `api_key`, if there is one. Raises ClientError when a PEM file cannot be
        used, or when the key would leave this machine in the clear.
        """
        self._address = address
        self._metadata = key_metadata(api_key or "")
        options = [*channel_options(), *_proxy_options(address)]
        try:
            credentials = tls.channel_credentials() if tls is not None else None
        except FilesError as error:
            raise ClientError(str(error)) from None
        if credentials is None and api_key and not is_loopback(address):
            raise ClientError(f"a key is not sent to {address} without TLS; name its authority")
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=options)
        self._stub = generation_pb2_grpc.GenerationServiceStub(self._channel)

    def generate(
        self, request: generation_pb2.GenerateRequest, *, timeout_s: float | None = None
    ) -> Generator[generation_pb2.OutputChunk | generation_pb2.GenerationSummary]:
        """Yields chunks as they come, then the summary. Closing the iterator cancels the call.

        `timeout_s` is for the whole call; None: no limit. Raises UnreachableError or RequestError.
        """
        call = self._stub.Generate(request, timeout=timeout_s, metadata=self._metadata)
        begun = ended = False
        try:
            for response in call:
                begun = True
                if response.HasField("summary"):
                    ended = True
                    yield response.summary
                elif response.HasField("chunk"):
                    yield response.chunk
        except grpc.RpcError as error:
            raise client_error(error, self._address, begun=begun) from error
        finally:
            call.cancel()
        if not ended:
            message = "the output ended without a summary"
            raise RequestError(RemoteError(grpc.StatusCode.DATA_LOSS, message))

    def status(self) -> generation_pb2.GenerationServiceGetStatusResponse:
        """The coordinator's state. Raises UnreachableError or RequestError."""
        request = generation_pb2.GenerationServiceGetStatusRequest()
        try:
            return self._stub.GetStatus(request, timeout=STATUS_TIMEOUT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            raise client_error(error, self._address, begun=False) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._channel.close()


def _proxy_options(address: str) -> list[tuple[str, int]]:
    """A proxy from the environment never stands between a machine and itself."""
    return [("grpc.enable_http_proxy", 0)] if is_loopback(address) else []
