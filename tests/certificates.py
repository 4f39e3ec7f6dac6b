"""Certificates for tests, by the openssl command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from outrider.rpc.tls import TlsFiles

OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command")

LOCAL = "IP:127.0.0.1,DNS:localhost"


class Authority:
    """Signs certificates; by default they are for this machine."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.certificate = folder / "ca.pem"
        self._key = folder / "ca.key"
        _openssl(
            "req", "-x509", *_new_key(self._key), "-subj", f"/CN={name}", "-days", "2",
            "-out", self.certificate,
        )  # fmt: skip

    def lock(self, files: TlsFiles) -> None:
        """Puts a password on a key."""
        assert files.key is not None
        _openssl("ec", "-aes256", "-passout", "pass:x", "-in", files.key, "-out", files.key)

    def issue(self, name: str, *, alternatives: str = LOCAL, days: int = 2) -> TlsFiles:
        """A certificate and its key; the authority is this one.

        `alternatives` are its subject alternative names, as openssl writes them; it ends after
        `days`, before today when they are negative. The same name again replaces the files.
        """
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate, extensions = self.folder / f"{name}.pem", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "")
        _openssl("req", *_new_key(key), "-subj", f"/CN={name}", "-out", request)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key,
            "-set_serial", "2", "-days", days, "-extfile", extensions, "-out", certificate,
        )  # fmt: skip
        return TlsFiles(certificate, key, self.certificate)


def _new_key(path: Path) -> list[object]:
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path]


def _openssl(*arguments: object) -> None:
    command = [str(OPENSSL), *(str(argument) for argument in arguments)]
    subprocess.run(command, check=True, capture_output=True)
