"""Serves a target."""

from __future__ import annotations

import asyncio

from outrider.logs import configure_logs
from outrider.settings import TargetSettings
from outrider.worker.serve import serve_worker
from target_service.kind import target_kind


def serve(settings: TargetSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError and ModelLoadError."""
    configure_logs(level=settings.log_level, log_format=settings.log_format)
    return asyncio.run(
        serve_worker(target_kind(max_draft_length=settings.max_draft_length), settings)
    )
