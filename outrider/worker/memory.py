"""What KV state a worker holds at one moment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.engine.block_pool import BlockPool, PoolStatistics
from outrider.engine.handles import HandleStatus, HandleTable


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Handles, and the blocks of the pool that they are in; `sums` since the start."""

    handles: HandleStatus
    blocks: int
    blocks_in_use: int
    blocks_cached: int
    block_bytes: int
    sums: PoolStatistics


def memory_report(handles: HandleTable, pool: BlockPool) -> MemoryReport:
    """Counts at this moment. Runs on the model thread."""
    status = handles.status()
    return MemoryReport(
        handles=status,
        blocks=pool.blocks,
        blocks_in_use=pool.in_use,
        blocks_cached=pool.cached,
        block_bytes=pool.block_bytes,
        sums=replace(pool.statistics),
    )
