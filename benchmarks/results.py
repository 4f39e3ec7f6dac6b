"""Rows of a benchmark: printed as a table, kept as JSON under a stable name."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure.

    `median` is in `unit`; `ratio` compares it with what `against` says, from the same run.
    """

    name: str
    median: float
    unit: str
    runs: int
    ratio: float | None = None
    against: str = ""
    bar: str = ""
    note: str = ""


def machine() -> str:
    """The machine in words."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor() or platform.machine(),
    )
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{os.cpu_count()} cores, {model}, {gpu}"


def publish(title: str, rows: Sequence[Row]) -> None:
    """Prints the table and writes one JSON file per row."""
    table = Table(title=f"{title} — {machine()}", title_justify="left")
    for heading in ("row", "median", "ratio", "against", "bar", "runs", "note"):
        table.add_column(heading)
    FOLDER.mkdir(exist_ok=True)
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        table.add_row(
            row.name,
            f"{row.median:.4g} {row.unit}",
            ratio,
            row.against,
            row.bar,
            str(row.runs),
            row.note,
        )
        record = {**asdict(row), "machine": machine(), "torch": torch.__version__}
        path = FOLDER / f"{row.name}.json"
        path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    Console(width=160).print(table)
