"""One way to make channels between services."""

from __future__ import annotations

from grpc import aio

from outrider.rpc.limits import MAX_MESSAGE_BYTES, channel_options
from outrider.rpc.tls import TlsFiles, TlsMaterial
from outrider.rpc.watched_files import WatchedFiles


class Channels:
    """Opens channels with the newest certificates that can be used.

    An open channel keeps those it was opened with: once `generation` is another than before,
    whoever holds one does well to open a new one.
    """

    def __init__(
        self, tls: TlsFiles | None = None, *, max_receive_bytes: int = MAX_MESSAGE_BYTES
    ) -> None:
        """TLS when `tls` names an authority; `max_receive_bytes` bounds one answer.

        Raises FilesError.
        """
        files = tls or TlsFiles()
        self._watched: WatchedFiles[TlsMaterial] = WatchedFiles(files.paths, files.read)
        self._max_receive_bytes = max_receive_bytes

    @property
    def generation(self) -> int:
        """How often the certificates were replaced."""
        return self._watched.current()[0]

    def open(self, address: str, *, server_name: str = "") -> aio.Channel:
        """A channel to `address` (host:port).

        The server's certificate has to name `server_name`, by default the host of the address. The
        channel connects when it is used, belongs to the running event loop and is closed by the
        caller.
        """
        options = [
            *channel_options(max_receive_bytes=self._max_receive_bytes),
            # Services reach each other directly, whatever proxy the environment names.
            ("grpc.enable_http_proxy", 0),
        ]
        _, material = self._watched.current()
        credentials = material.channel_credentials()
        if credentials is None:
            return aio.insecure_channel(address, options=options)
        if server_name:
            options.append(("grpc.default_authority", server_name))
        return aio.secure_channel(address, credentials, options=options)


def open_channel(
    address: str, tls: TlsFiles | None = None, *, server_name: str = ""
) -> aio.Channel:
    """One channel, as `Channels` opens them. Raises FilesError."""
    return Channels(tls).open(address, server_name=server_name)
