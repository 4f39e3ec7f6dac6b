"""Where a worker listens, and who may call it."""

from __future__ import annotations

from outrider.rpc.access import OPEN_ACCESS
from outrider.rpc.allowed_callers import AllowedCallers
from outrider.rpc.server import Listener
from outrider.rpc.tls import TlsFiles
from outrider.settings import WorkerSettings


def worker_listener(settings: WorkerSettings) -> Listener:
    """With an authority, certificates of allowed callers are asked for; else anyone may call."""
    names = settings.caller_names
    return Listener(
        settings.listen,
        TlsFiles(settings.tls_cert, settings.tls_key, settings.tls_ca),
        access=AllowedCallers(names) if names else OPEN_ACCESS,
        health_address=settings.health_listen,
    )
