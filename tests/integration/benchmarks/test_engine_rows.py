"""The engine's benchmarks run to their end, on a tiny target."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import batched_verify, kv_bookkeeping, round_at_context, sampling
from benchmarks.gpu import main as measure_gpu
from benchmarks.subject import Subject
from outrider.testing.tiny_models import save_tiny


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    folder: Path = save_tiny(tmp_path_factory.mktemp("tiny"))
    return Subject(model=str(folder), words="tiny target", dtype="float32", prefix="tiny_")


def test_verifications_are_handed_in_together(subject: Subject) -> None:
    (row,) = batched_verify.measure(dtypes=("float32",), runs=2, subject=subject)

    assert row.name == "tiny_batched_verify_8_float32"
    assert "mean batch 8.0" in row.note
    assert row.ratio is not None
    assert row.ratio > 0


def test_rounds_and_steps_are_measured_at_each_context(subject: Subject) -> None:
    rows = list(round_at_context.measure(contexts=(50, 200), runs=2, subject=subject))

    assert [row.name for row in rows] == [
        f"tiny_{kind}_at_context_{context}" for context in (50, 200) for kind in ("round", "decode")
    ]
    assert [row.ratio is None for row in rows] == [True, True, False, False]


def test_sampling_of_a_batch_is_a_share_of_its_forward(subject: Subject) -> None:
    (row,) = sampling.measure_batch(runs=2, kinds=("top_p",), subject=subject)

    assert row.name == "tiny_sampling_share_batch_8_top_p"
    assert row.ratio is not None
    assert row.ratio > 0


def test_the_bookkeeping_is_measured() -> None:
    rows = [*kv_bookkeeping.measure_rollback(runs=3), *kv_bookkeeping.measure_lookup(runs=3)]

    assert [row.name for row in rows] == ["rollback_us", "handle_lookup_us"]


def test_a_machine_without_cuda_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    assert measure_gpu([]) == 2
    assert "no CUDA device" in capsys.readouterr().err
