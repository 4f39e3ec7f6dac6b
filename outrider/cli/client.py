"""A small client of GenerationService: blocking calls, readable errors."""

from __future__ import annotations

import ipaddress
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from outrider.errors import DOMAIN
from outrider.v1 import generation_pb2, generation_pb2_grpc

DEFAULT_ADDRESS = "127.0.0.1:7400"
STATUS_TIMEOUT_S = 10.0


class ClientError(Exception):
    """A call did not end well; its text is for people."""


class UnreachableError(ClientError):
    """No coordinator answers at the address."""

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"no server answers at {address}. Start one with: outrider up\n({detail})")
        self.address = address


class RequestError(ClientError):
    """The server refused the request or failed.

    `field` and `allowed` are set when one field of the request was wrong, `retry_after_s` when the
    server says when to try again.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        field: str = "",
        allowed: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.allowed = allowed
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """The message, with field, range and delay where it does not name them itself."""
        parts = [self.message or self.code.name]
        if self.field and self.field not in self.message:
            parts.append(f"field {self.field}")
        if self.allowed and self.allowed not in self.message:
            parts.append(f"allowed: {self.allowed}")
        if self.retry_after_s is not None:
            parts.append(f"try again in {self.retry_after_s:g} s")
        return f"{'; '.join(parts)} [{self.code.name}]"


class Client:
    """One channel to a coordinator. Use it as a context manager."""

    def __init__(self, address: str, *, tls_ca: Path | None = None) -> None:
        """`address` is host:port. With `tls_ca`, a PEM file, the connection is TLS and the server
        must have a certificate signed by it. Raises OSError when the file cannot be read."""
        self._address = address
        options = _channel_options(address)
        if tls_ca is None:
            self._channel = grpc.insecure_channel(address, options=options)
        else:
            credentials = grpc.ssl_channel_credentials(tls_ca.read_bytes())
            self._channel = grpc.secure_channel(address, credentials, options=options)
        self._stub = generation_pb2_grpc.GenerationServiceStub(self._channel)

    def generate(
        self, request: generation_pb2.GenerateRequest
    ) -> Generator[generation_pb2.OutputChunk | generation_pb2.GenerationSummary]:
        """Yields chunks as they come, then the summary. Closing the iterator cancels the call.

        Raises UnreachableError or RequestError.
        """
        call = self._stub.Generate(request)
        ended = False
        try:
            for response in call:
                if response.HasField("summary"):
                    ended = True
                    yield response.summary
                elif response.HasField("chunk"):
                    yield response.chunk
        except grpc.RpcError as error:
            self._translate(error)
        finally:
            call.cancel()
        if not ended:
            raise RequestError(grpc.StatusCode.DATA_LOSS, "the output ended without a summary")

    def status(self) -> generation_pb2.GenerationServiceGetStatusResponse:
        """The coordinator's state. Raises UnreachableError or RequestError."""
        request = generation_pb2.GenerationServiceGetStatusRequest()
        try:
            return self._stub.GetStatus(request, timeout=STATUS_TIMEOUT_S)
        except grpc.RpcError as error:
            self._translate(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._channel.close()

    def _translate(self, error: grpc.RpcError) -> NoReturn:
        code, message = error.code(), error.details() or ""
        info, retry_after_s = _details(error)
        if code is grpc.StatusCode.UNAVAILABLE and info.domain != DOMAIN:
            raise UnreachableError(self._address, message) from error
        raise RequestError(
            code,
            message,
            reason=info.reason,
            field=info.metadata.get("field", ""),
            allowed=info.metadata.get("allowed", ""),
            retry_after_s=retry_after_s,
        ) from error


def _details(error: grpc.RpcError) -> tuple[error_details_pb2.ErrorInfo, float | None]:
    """What the status carries beside code and message; an empty ErrorInfo when nothing."""
    info, retry_after_s = error_details_pb2.ErrorInfo(), None
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # details of another status: not ours to read
        return info, None
    for detail in status.details if status is not None else ():
        retry = error_details_pb2.RetryInfo()
        if detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
        elif detail.Unpack(retry):
            delay = retry.retry_delay
            retry_after_s = delay.seconds + delay.nanos / 1e9
    return info, retry_after_s


def _channel_options(address: str) -> list[tuple[str, int]]:
    """A proxy from the environment never stands between a machine and itself."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    return [("grpc.enable_http_proxy", 0)] if loopback else []
