"""Certificates of a listener or a channel: PEM files, read again when they are replaced."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from outrider.rpc.watched_files import FilesError, WatchedFiles


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """What the files of a TlsFiles hold."""

    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    authority: bytes | None = None

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Credentials of a channel; None without an authority."""
        if self.authority is None:
            return None
        return grpc.ssl_channel_credentials(
            root_certificates=self.authority,
            private_key=self.key,
            certificate_chain=self.certificate,
        )

    def server_configuration(self) -> grpc.ServerCertificateConfiguration:
        """What a listener shows, and whose certificates it takes."""
        pair = (self.key or b"", self.certificate or b"")
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=self.authority)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. A server needs `certificate` and `key`; with `authority` it wants certificates
    of its clients too. A client needs `authority`; with `certificate` and `key` it shows its own.
    """

    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    @property
    def paths(self) -> Sequence[Path]:
        """The files that are given."""
        return [path for path in (self.certificate, self.key, self.authority) if path is not None]

    def read(self) -> TlsMaterial:
        """The files as they are. Raises FilesError when one cannot be used."""
        material = TlsMaterial(_read(self.certificate), _read(self.key), _read(self.authority))
        if self.certificate is not None and self.key is not None:
            _check_pair(self.certificate, self.key)
        if self.authority is not None:
            _check_authority(self.authority)
        return material

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Credentials of one channel; None without an authority. Raises FilesError."""
        return self.read().channel_credentials()

    def server_credentials(self) -> grpc.ServerCredentials | None:
        """Credentials of a listener, which follow the files; None without a certificate.

        Each new connection gets the newest files that can be used; open ones go on as they are.
        Raises FilesError.
        """
        if self.certificate is None or self.key is None:
            return None
        watched = WatchedFiles(self.paths, self.read)
        shown, material = watched.current()

        def replaced() -> grpc.ServerCertificateConfiguration | None:
            """Asked by gRPC, on its own threads, before each handshake; None: as before."""
            nonlocal shown
            generation, newest = watched.current()
            if generation == shown:
                return None
            shown = generation
            return newest.server_configuration()

        return grpc.dynamic_ssl_server_credentials(
            material.server_configuration(),
            replaced,  # type: ignore[arg-type]
            require_client_authentication=self.authority is not None,
        )


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise FilesError(f"{path} cannot be read ({error.strerror})") from None


def _check_pair(certificate: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password of ours, OpenSSL would ask the terminal for one.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError, ValueError):
        raise FilesError(f"{certificate} and {key} are not a certificate and its key") from None


def _check_authority(path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError):
        raise FilesError(f"{path} holds no certificate of an authority") from None
