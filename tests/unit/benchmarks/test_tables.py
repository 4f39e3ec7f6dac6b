"""Kept results as markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.results import Row
from benchmarks.tables import markdown


def keep(folder: Path, *rows: Row) -> None:
    for row in rows:
        record = {**asdict(row), "machine": "2 cores"}
        (folder / f"{row.name}.json").write_text(json.dumps(record))


def test_rows_stand_in_the_order_of_the_table_and_of_their_numbers(tmp_path: Path) -> None:
    keep(
        tmp_path,
        Row("handle_lookup_us", 2.0, "µs", 5),
        Row("target_only_16", 100.0, "tokens/s", 3),
        Row("target_only_8", 70.0, "tokens/s", 3),
        Row("target_only_8_gather", 70.0, "tokens/s", 3),
        Row("batched_verify_8_float32", 150.0, "ms", 15),
    )

    lines = markdown("engine", tmp_path).splitlines()

    assert [line.split("`")[1] for line in lines if "`" in line] == [
        "batched_verify_8_float32",
        "target_only_8",
        "target_only_8_gather",
        "target_only_16",
        "handle_lookup_us",
    ]


def test_a_line_has_figure_ratio_and_bar(tmp_path: Path) -> None:
    row = Row(
        "ttft_beside_prefill", 123.44, "ms", 9, ratio=1.806, against="alone, 68 ms", bar="≤ 3"
    )
    keep(tmp_path, row)

    text = markdown("engine", tmp_path)

    assert text.endswith("| `ttft_beside_prefill` | 123 ms | 1.81 | alone, 68 ms | ≤ 3 | 9 |")


def test_rows_of_other_tables_are_left_out(tmp_path: Path) -> None:
    keep(tmp_path, Row("gpu_rollback_us", 1.0, "µs", 5), Row("hop_scripted_p50", 1.0, "ms", 5))

    assert "`" not in markdown("engine", tmp_path)


def test_every_machine_of_the_rows_is_named(tmp_path: Path) -> None:
    keep(tmp_path, Row("rollback_us", 1.0, "µs", 5))

    assert markdown("engine", tmp_path).startswith("Machine: 2 cores.")
