"""The numbers that a device is fast in are chosen for it, the same for each of its kind."""

from __future__ import annotations

from types import MappingProxyType

import pytest
import torch

from outrider.engine.load_error import ModelLoadError
from outrider.engine.number_type import choose_number_type

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("capabilities", "chosen"),
    [
        ({"avx2": True}, torch.float32),
        ({"avx512_f": True, "avx512_vnni": True, "avx512_bf16": False}, torch.float32),
        ({"avx512_f": True, "avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"neon": True, "bf16": False}, torch.float32),
        ({"neon": True, "bf16": True}, torch.bfloat16),
        ({}, torch.float32),
    ],
)
def test_a_processor_needs_instructions_for_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], chosen: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: MappingProxyType(capabilities))
    assert choose_number_type("auto", CPU) is chosen


@pytest.mark.parametrize(("has", "chosen"), [(True, torch.bfloat16), (False, torch.float32)])
def test_so_does_a_gpu(monkeypatch: pytest.MonkeyPatch, has: bool, chosen: torch.dtype) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has)
    assert choose_number_type("auto", CUDA) is chosen


def test_what_is_asked_for_is_chosen_wherever_it_is() -> None:
    assert choose_number_type("float16", CPU) is torch.float16
    assert choose_number_type("bfloat16", CUDA) is torch.bfloat16
    with pytest.raises(ModelLoadError, match="dtype int4 is not known; it may be auto, float64"):
        choose_number_type("int4", CPU)
