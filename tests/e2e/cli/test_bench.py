"""`outrider bench` with a pair of its own, its draft moved away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import TinyFolders


def test_a_tiny_pair_near_and_far(tiny_folders: TinyFolders, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    flags = (
        "--round-trip-ms 0,40 --draft-length 2 --concurrency 2 --requests 2 --max-new-tokens 6 "
        "--temperature 0"
    )
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "bench", *tiny_folders.flags, *flags.split(),
         "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(out.read_text())
    places = [
        (one["place"]["round_trip_ms"], one["place"]["concurrency"]) for one in facts["cells"]
    ]
    assert places == [(0.0, 2), (0.0, 2), (40.0, 2), (40.0, 2)]
    for one in facts["cells"]:
        if one["versus"] is not None:
            assert one["versus"]["equal_outputs"] == one["versus"]["outputs"] == 2
            assert one["rounds"]["draft_tokens"] > 0
        shares = one["rounds"]["shares"]
        assert sum(shares.values()) * (6 - 1) * 2 == pytest.approx(one["rounds"]["later_ms"])
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert "Draft 40 ms away" in done.stdout
    assert "<svg" in out.with_suffix(".html").read_text()
