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


def choose_number_type(name: str) -> torch.dtype:
    """The numbers of that name; `auto` is bfloat16.

    On a CPU too: the weights are read once per forward and half the bytes are half the time,
    and rows of one forward cost least there, so that verification pays.
    """
    if name == "auto":
        return torch.bfloat16
    if name not in NUMBER_TYPES:
        allowed = ", ".join(["auto", *NUMBER_TYPES])
        raise ModelLoadError(f"dtype {name} is not known; it may be {allowed}")
    return NUMBER_TYPES[name]


def number_type_name(dtype: torch.dtype) -> str:
    """`float32` and so on."""
    return str(dtype).removeprefix("torch.")
