"""Certificates of a listener or a channel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. A server needs `certificate` and `key`; with `authority` it wants certificates
    of its clients too. A client needs `authority`; with `certificate` and `key` it shows its own.
    """

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    def server_credentials(self) -> grpc.ServerCredentials | None:
        """Credentials of a listener; None without a certificate."""
        if self.certificate is None or self.key is None:
            return None
        authority = self.authority.read_bytes() if self.authority else None
        return grpc.ssl_server_credentials(
            [(self.key.read_bytes(), self.certificate.read_bytes())],
            root_certificates=authority,
            require_client_auth=authority is not None,
        )

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Credentials of a channel; None without an authority."""
        if self.authority is None:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=self.authority.read_bytes(),
            private_key=self.key.read_bytes() if self.key else None,
            certificate_chain=self.certificate.read_bytes() if self.certificate else None,
        )
