"""One way to make a channel between services."""

from __future__ import annotations

from grpc import aio

from outrider.rpc.limits import channel_options
from outrider.rpc.tls import TlsFiles


def open_channel(address: str, tls: TlsFiles | None = None) -> aio.Channel:
    """A channel to `address` (host:port); with TLS when `tls` names an authority.

    It connects when it is used, belongs to the running event loop and is closed by the caller.
    Raises OSError when a PEM file cannot be read.
    """
    # Services reach each other directly, whatever proxy the environment names.
    options = [*channel_options(), ("grpc.enable_http_proxy", 0)]
    credentials = tls.channel_credentials() if tls else None
    if credentials is None:
        return aio.insecure_channel(address, options=options)
    return aio.secure_channel(address, credentials, options=options)
