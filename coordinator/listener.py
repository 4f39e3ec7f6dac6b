"""Where a coordinator listens, and who may call it."""

from __future__ import annotations

from outrider.rpc.access import OPEN_ACCESS
from outrider.rpc.api_keys import KeyHolders
from outrider.rpc.server import Listener
from outrider.rpc.tls import TlsFiles
from outrider.settings import CoordinatorSettings

CONNECTION_AGE_S = 600.0
"""Clients connect anew now and then, so that new replicas get some of them."""


def public_listener(settings: CoordinatorSettings) -> Listener:
    """Clients need no certificate; with a file of keys, each call has to show one.

    Raises FilesError when the file of keys cannot be used.
    """
    keys = settings.api_keys_file
    return Listener(
        settings.listen,
        TlsFiles(
            settings.public_tls_cert or settings.tls_cert,
            settings.public_tls_key or settings.tls_key,
        ),
        settings.max_request_bytes,
        connection_age_s=CONNECTION_AGE_S,
        access=KeyHolders(keys) if keys else OPEN_ACCESS,
        health_address=settings.health_listen,
    )
