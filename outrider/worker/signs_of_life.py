"""Signs of life of a stream whose answer takes long."""

from __future__ import annotations

import asyncio
from typing import Any

SIGN_INTERVAL_S = 1.0
"""Whoever hears nothing for three of these takes this worker for dead."""


async def still_waits(awaited: asyncio.Future[Any]) -> bool:
    """Whether it is time for a sign of life; False once `awaited` is done, however it ended."""
    finished, _ = await asyncio.wait({awaited}, timeout=SIGN_INTERVAL_S)
    return not finished
