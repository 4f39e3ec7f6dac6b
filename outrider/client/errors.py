"""What calls to a coordinator end with when they do not end well."""

from __future__ import annotations

from dataclasses import replace

import grpc

from outrider.rpc.status import RemoteError, remote_error


class ClientError(Exception):
    """A call did not end well; its text is for people."""


class UnreachableError(ClientError):
    """No coordinator answers at the address."""

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"no server answers at {address}. Start one with: outrider up\n({detail})")
        self.address = address


class RequestError(ClientError):
    """The server refused the request or failed; `remote` is what it says."""

    def __init__(self, remote: RemoteError) -> None:
        super().__init__(_worded(remote))
        self.remote = remote


def client_error(error: grpc.RpcError, address: str, *, begun: bool) -> ClientError:
    """What a failed call to the server at `address` means.

    `begun`: the server had answered before. A server that is short of something says so in
    details; a network cannot.
    """
    remote = remote_error(error)
    if remote.code is grpc.StatusCode.UNAVAILABLE and not remote.reason:
        if not begun:
            return UnreachableError(address, remote.message)
        remote = replace(remote, message=f"the connection was lost ({remote.message})")
    return RequestError(remote)


def _worded(remote: RemoteError) -> str:
    """The message, with field, range and delay where it does not name them itself."""
    parts = [remote.message or remote.code.name]
    for name in ("field", "allowed"):
        value = remote.metadata.get(name, "")
        if value not in remote.message:
            parts.append(f"{name}: {value}")
    if remote.retry_after_s is not None:
        parts.append(f"try again in {remote.retry_after_s:g} s")
    return f"{'; '.join(parts)} [{remote.code.name}]"
