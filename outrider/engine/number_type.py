"""Where a model runs and in which numbers."""

from __future__ import annotations

import torch

from outrider.engine.load_error import ModelLoadError

NUMBER_TYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


CPU_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
"""Instructions, on x86 and Arm, that multiply in bfloat16."""


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` is the first CUDA device if there is one, else the CPU.

    Raises ModelLoadError for a device that is not there.
    """
    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", 0)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelLoadError(f"device {name} cannot be used: {reason}") from error
    return device


def choose_number_type(name: str, device: torch.device) -> torch.dtype:
    """The numbers of that name; `auto` is bfloat16 where the device computes in it, else float32.

    bfloat16 halves what is read. Without instructions for it a processor gains that for a single
    row and loses more for several: a verification of 5 rows took 1.1 times as long as in float32,
    one of 40 rows 2.5 to 3 times (an x86 processor, told not to use its instructions). The same
    kind of machine always gets the same answer. Raises ModelLoadError.
    """
    if name == "auto":
        return torch.bfloat16 if _has_bfloat16(device) else torch.float32
    if name not in NUMBER_TYPES:
        allowed = ", ".join(["auto", *NUMBER_TYPES])
        raise ModelLoadError(f"dtype {name} is not known; it may be {allowed}")
    return NUMBER_TYPES[name]


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return any(capabilities.get(name) for name in CPU_BFLOAT16)
    return True


def number_type_name(dtype: torch.dtype) -> str:
    """`float32` and so on."""
    return str(dtype).removeprefix("torch.")
