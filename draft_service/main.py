"""Serves a draft."""

from __future__ import annotations

import asyncio

from draft_service.kind import draft_kind
from draft_service.proposal import CandidateCut
from outrider.logs import configure_logs
from outrider.settings import DraftSettings
from outrider.worker.serve import serve_worker


def serve(settings: DraftSettings) -> int:
    """Serves until SIGTERM or SIGINT; the exit code. Raises ListenError and ModelLoadError."""
    configure_logs(level=settings.log_level, log_format=settings.log_format)
    cut = CandidateCut(settings.draft_candidates, settings.draft_candidate_mass)
    kind = draft_kind(cut, settings.drafter, recent_ids=settings.copy_recent)
    return asyncio.run(serve_worker(kind, settings))
