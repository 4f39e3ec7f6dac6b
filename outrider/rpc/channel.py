"""One way to make a channel."""

from __future__ import annotations

from grpc import aio

from outrider.rpc.limits import channel_options
from outrider.rpc.tls import TlsFiles


def open_channel(address: str, tls: TlsFiles | None = None) -> aio.Channel:
    """A channel to `address` (host:port); with TLS when `tls` names an authority."""
    credentials = tls.channel_credentials() if tls else None
    if credentials is None:
        return aio.insecure_channel(address, options=channel_options())
    return aio.secure_channel(address, credentials, options=channel_options())
