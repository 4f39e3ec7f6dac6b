"""What a distillation has done is there after kill -9, Ctrl-C and a disk that is full."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.distill.tiny_distillation import save_target

OPTIONS = (
    *("--written-tokens", "500", "--longest", "16", "--layers", "0,3", "--loss", "forward-kl"),
    *("--vocabulary", "128", "--tokens", "10000", "--batch-tokens", "256", "--judge-every", "2000"),
    *("--learning-rate", "5e-3", "--verify-prompts", "1", "--verify-tokens", "12"),
    *("--side-by-side", "16", "--held-out-texts", "8"),
    *("--dtype", "float32", "--threads", "1"),
)  # fmt: skip
SMALL_FILES = 20


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_target(tmp_path_factory.mktemp("target") / "tiny")


def command(target: Path, out: Path) -> list[str]:
    words = ["distill", "--target", str(target), "--out", str(out), *OPTIONS]
    return [sys.executable, "-m", "outrider", *words]


def curve(out: Path) -> list[dict[str, object]]:
    path = out.with_name(out.name + "-work") / "checkpoints" / "curve.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)


def end_after(points: int, words: Sequence[str], out: Path, how: signal.Signals) -> int:
    """Starts a run and ends it once its curve has so many points; its exit status."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120.0
        while len(curve(out)) < points and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.poll() is None, "it ended before it was ended"
        process.send_signal(how)
        return process.wait(60)


def test_after_a_kill_and_a_ctrl_c_the_curve_is_the_same(tmp_path: Path, target: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(command(target, whole)).returncode == 0
    assert end_after(2, command(target, cut), cut, signal.SIGKILL) == -signal.SIGKILL
    assert not cut.exists() or not list(cut.glob("*.safetensors"))
    assert end_after(4, command(target, cut), cut, signal.SIGINT) == 130
    assert run(command(target, cut)).returncode == 0
    assert curve(cut) == curve(whole)
    for name in ("model.safetensors", "draft_vocabulary.safetensors", "config.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_full_disk_loses_no_checkpoint(tmp_path: Path, target: Path) -> None:
    out = tmp_path / "draft"
    end_after(3, command(target, out), out, signal.SIGINT)
    last = tmp_path / "draft-work" / "checkpoints" / "last.safetensors"
    kept = last.read_bytes()
    limited = " ".join(["ulimit -f", f"{SMALL_FILES};", "exec", *command(target, out)])
    full = run(["bash", "-c", f"trap '' XFSZ; {limited}"])
    assert full.returncode == 1
    assert "cannot be written" in full.stderr
    assert "last.safetensors" in full.stderr
    assert "Traceback" not in full.stderr
    assert last.read_bytes() == kept
    assert not list(last.parent.glob(".*.part"))
