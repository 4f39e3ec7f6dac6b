"""What the bookkeeping of KV state costs: a rollback, and finding the state of a handle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.results import Row
from outrider.engine.block_pool import BlockPool
from outrider.engine.handles import HandleTable
from outrider.engine.paged_sequence import Sequence

SHORT, LONG = 112, 4000
"""Both whole blocks, so that both rollbacks give one back."""
SURPLUS = 5
FEW, MANY = 1, 256
BLOCKS = 2048
RUNS = 5000


def measure_rollback(*, runs: int = RUNS) -> Iterator[Row]:
    """Microseconds to forget SURPLUS ids of a long sequence, against a short one."""
    short, long = (_rollback_us(length, runs) for length in (SHORT, LONG))
    yield Row(
        "rollback_us",
        long,
        "µs",
        runs,
        ratio=long / short,
        against=f"sequence of {SHORT} tokens, {short:.2f} µs",
        note=f"{SURPLUS} tokens off {LONG}, bookkeeping on the model thread",
    )


def measure_lookup(*, runs: int = RUNS) -> Iterator[Row]:
    """Microseconds from a handle's name to its state, checked by its digest."""
    few, many = (_lookup_us(handles, runs) for handles in (FEW, MANY))
    yield Row(
        "handle_lookup_us",
        many,
        "µs",
        runs,
        ratio=many / few,
        against=f"{FEW} handle, {few:.2f} µs",
        note=f"{MANY} handles, all pinned, the one looked for with {LONG} tokens",
    )


def _rollback_us(length: int, runs: int) -> float:
    sequence = _sequence(BlockPool(BLOCKS), length)
    surplus = list(range(SURPLUS))
    found = []
    for _ in range(runs):
        sequence.reserve(SURPLUS)
        sequence.append(surplus)
        since = time.perf_counter()
        sequence.rollback(length)
        found.append(time.perf_counter() - since)
    return median(found) * 1e6


def _lookup_us(handles: int, runs: int) -> float:
    pool = BlockPool(BLOCKS)
    table = HandleTable(lambda scope: Sequence(pool, scope=scope), max_handles=handles)
    names = [table.open(None, owner="stream", scope=b"") for _ in range(handles)]
    state = table.attach(
        names[0], owner="stream", base_length=0, prefix_digest=Sequence(pool).prefix.digest(0)
    )
    if not isinstance(state, Sequence):
        raise RuntimeError("a new handle has no state")
    _fill(state, LONG)
    digest = state.prefix.digest(LONG)
    found = []
    for _ in range(runs):
        since = time.perf_counter()
        table.attach(names[0], owner="stream", base_length=LONG, prefix_digest=digest)
        found.append(time.perf_counter() - since)
    return median(found) * 1e6


def _sequence(pool: BlockPool, length: int) -> Sequence:
    sequence = Sequence(pool)
    _fill(sequence, length)
    return sequence


def _fill(sequence: Sequence, length: int) -> None:
    sequence.reserve(length)
    sequence.append(list(range(length)))
    sequence.seal(length)
