"""Sends a coordinator's drafting to another server than the one that it paired with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grpc import aio

from outrider.testing.cluster import Cluster


@contextmanager
def drafting_through(cluster: Cluster, channel: aio.Channel) -> Iterator[None]:
    """Streams opened meanwhile go through `channel`; health is still asked of the draft."""
    (replica,) = cluster.coordinator.pools.drafts.all
    paired = replica.worker.channel
    replica.worker.channel = channel
    try:
        yield
    finally:
        replica.worker.channel = paired
