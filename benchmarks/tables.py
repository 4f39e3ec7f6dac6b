"""Kept results as a markdown table, for docs/performance.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import FOLDER

HEADINGS = ("row", "median", "ratio", "against", "bar", "runs")
TABLES: dict[str, Sequence[str]] = {
    "engine": (
        r"batched_verify_8_.*",
        r"target_only_\d+.*",
        r"target_rounds_\d+",
        r"ttft_beside_prefill",
        r"prefix_reuse_.*",
        r"(round|decode)_at_context_\d+",
        r"rollback_us",
        r"handle_lookup_us",
        r"sampling_share.*",
        r"compile_off_on_\d+",
        r"loop_thread_vs_process_.*",
    ),
    "limits": (r"limit_.*",),
    "speculation": (
        r"draft_ahead_\d+ms",
        r"draft_ahead_slope",
        r"draft_ahead_embedded_.*",
        r"price_64",
        r"embedded_vs_target_only(_auto_.*)?",
        r"embedded_vs_hf_assisted.*",
        r"coupled_acceptance",
    ),
    "drafters": (
        r"embedded_draft_step_at_\d+",
        r"(embedded|lookup)_tokens_per_round(_(greedy|t1)_.*)?",
    ),
    "guard": (r"guard_a.*", r"guard_(mean|switches)"),
    "guard_greedy": (r"guard_greedy_.*",),
    "guard_grid": (r"guard_grid_.*",),
    "gpu": (r"gpu_.*",),
    "trouble": (r"failover_calm", r"failover_draft_.*", r"failover_target_.*", r"overload_.*"),
}
"""Patterns of the names of the rows, in the order of the table."""


def markdown(table: str, folder: Path = FOLDER) -> str:
    """The table of that name from the results in `folder`; the machine above it."""
    records = list(_records(TABLES[table], folder))
    machines = sorted({record["machine"] for record in records})
    lines = [*(f"Machine: {machine}." for machine in machines), ""]
    lines += [_line(HEADINGS), _line(["---"] * len(HEADINGS))]
    return "\n".join([*lines, *(_line(_cells(record)) for record in records)])


def _records(patterns: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    paths = sorted(folder.glob("*.json"), key=lambda path: _natural(path.stem))
    for pattern in patterns:
        for path in paths:
            if re.fullmatch(pattern, path.stem):
                yield json.loads(path.read_text())


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts `_8` before `_16`."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]


def _cells(record: dict[str, Any]) -> list[str]:
    ratio = record["ratio"]
    return [
        f"`{record['name']}`",
        f"{record['median']:.3g} {record['unit']}".strip(),
        "" if ratio is None else f"{ratio:.2f}",
        record["against"],
        record["bar"],
        str(record["runs"]),
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
