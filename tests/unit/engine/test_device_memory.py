"""How large a KV pool becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from outrider.engine import device_memory
from outrider.engine.device_memory import kv_pool_bytes, machine_memory
from outrider.engine.load_error import ModelLoadError
from outrider.memory_budget import MemoryBudget

CPU = torch.device("cpu")
GIB = 1 << 30


@pytest.fixture(autouse=True)
def _machine_of_16_gib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    monkeypatch.setattr(device_memory, "CGROUP_LIMITS", (limit, tmp_path / "none"))
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 * GIB // 4096}
    monkeypatch.setattr(device_memory, "sysconf", sizes.__getitem__)


def pool(text: str, *, weights: int = 0, context: int = GIB) -> int:
    return kv_pool_bytes(
        MemoryBudget.parse(text), device=CPU, weights_bytes=weights, context_bytes=context
    )


def test_bytes_are_taken_as_they_are() -> None:
    assert pool("3GiB", weights=100 * GIB) == 3 * GIB


def test_more_bytes_than_there_are_are_refused() -> None:
    assert pool("16GiB") == 16 * GIB
    with pytest.raises(ModelLoadError, match="kv_memory: 17179869185 bytes"):
        pool(str(16 * GIB + 1))


def test_a_share_is_one_of_what_the_weights_leave() -> None:
    assert pool("50%", weights=4 * GIB) == 6 * GIB
    assert pool("50%", weights=20 * GIB) == 0


def test_by_itself_it_takes_a_quarter_and_no_more_than_64_contexts_need() -> None:
    assert pool("auto", weights=4 * GIB) == 3 * GIB
    assert pool("auto", context=1000) == 64_000


def test_a_container_has_the_memory_of_its_limit(tmp_path: Path) -> None:
    assert machine_memory() == 16 * GIB
    (tmp_path / "memory.max").write_text(f"{2 * GIB}\n")
    assert machine_memory() == 2 * GIB
