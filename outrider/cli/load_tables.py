"""What each worker holds and does at this moment: a column for each, so that lines stay short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from outrider.cli.figures import NOTHING, number, percent, size
from outrider.v1 import generation_pb2, model_pb2

HEADING_WIDTH = 16
COLUMN_WIDTH = 20


def load_tables(
    state: generation_pb2.GenerationServiceGetStatusResponse, *, width: int
) -> Iterator[Table]:
    """As many tables as workers need on a terminal of `width` characters."""
    columns = [
        (pool if len(workers) == 1 else f"{pool}\n{worker.address}", _figures(worker))
        for pool, workers in (("target", state.targets), ("draft", state.drafts))
        for worker in workers
        if worker.HasField("status")
    ]
    most = max(1, (width - HEADING_WIDTH) // COLUMN_WIDTH)
    for start in range(0, len(columns), most):
        yield _table(columns[start : start + most])


def _table(columns: Sequence[tuple[str, Mapping[str, str]]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("")
    for heading, _ in columns:
        table.add_column(Text(heading), overflow="fold", max_width=COLUMN_WIDTH)
    for name in columns[0][1]:
        table.add_row(Text(name), *(Text(figures[name]) for _, figures in columns))
    return table


def _figures(worker: generation_pb2.WorkerStatus) -> Mapping[str, str]:
    load = worker.status
    is_target = worker.model.role == model_pb2.WORKER_ROLE_TARGET
    kept_bytes = load.kv_blocks_cached * _block_bytes(load)
    return {
        "generations": f"{worker.generations} now, {worker.placed} ever",
        "failures": _failures(worker),
        "trusted": NOTHING if is_target else _trust(worker),
        "weights": size(load.weights_bytes),
        "KV pool": size(load.kv_pool_bytes),
        "KV in use": _part(load.kv_bytes, load.kv_pool_bytes),
        "KV kept": _part(kept_bytes, load.kv_pool_bytes),
        "handles": f"{load.handles_in_use} in use, {load.handles_leased} kept",
        "prefix hits": percent(_ratio(load.prefix_hit_tokens, load.prefix_asked_tokens)),
        "preempted": str(load.preemptions),
        "queue": str(load.queue_depth),
        "batch": number(load.mean_batch_size or None),
        "price of a row": number(load.price or None, digits=3),
        "drafted": NOTHING if is_target else str(load.draft_tokens),
        "copied": NOTHING if is_target else str(load.copied_tokens),
        "accepted": percent(_ratio(load.accepted_tokens, load.draft_tokens if is_target else 0)),
    }


def _failures(worker: generation_pb2.WorkerStatus) -> str:
    rests = f", at rest for {worker.resting_s:.1f} s" if worker.resting_s else ""
    return f"{worker.failures}{rests}"


def _trust(worker: generation_pb2.WorkerStatus) -> str:
    return f"{'yes' if worker.trusted else 'no'} (z {worker.acceptance_z:.1f})"


def _block_bytes(load: model_pb2.ModelServiceGetStatusResponse) -> int:
    return load.kv_pool_bytes // load.kv_blocks if load.kv_blocks else 0


def _part(part: int, whole: int) -> str:
    return f"{size(part)}, {100 * part / whole:.0f} %" if whole else NOTHING


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
