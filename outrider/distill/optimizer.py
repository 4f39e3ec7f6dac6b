"""How weights follow gradients: matrices by Muon, everything else by AdamW.

Muon makes the steps of a matrix alike in all its directions (Jordan et al., 2024,
https://kellerjordan.github.io/posts/muon/), scaled so that AdamW's learning rates fit it
(Liu et al., 2025, https://arxiv.org/abs/2502.16982).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.01
COUNT = "step"
"""What AdamW keeps on the processor."""


class Optimizer:
    """Steps of all weights that are taught."""

    def __init__(self, weights: Iterable[torch.nn.Parameter]) -> None:
        weights = list(weights)
        matrices = [weight for weight in weights if weight.dim() == 2]
        others = [weight for weight in weights if weight.dim() != 2]
        self._parts: list[torch.optim.Optimizer] = []
        if matrices:
            self._parts.append(
                torch.optim.Muon(
                    matrices, lr=0.0, weight_decay=WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"
                )
            )
        if others:
            self._parts.append(torch.optim.AdamW(others, lr=0.0, betas=BETAS, weight_decay=0.0))

    def step(self, rate: float) -> None:
        """Moves all weights along their gradients, and forgets those."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)

    def memory(self, weight: torch.nn.Parameter) -> dict[str, torch.Tensor]:
        """What is remembered for a weight, by name; empty before the first step."""
        state = self._part_of(weight).state.get(weight, {})
        return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}

    def remember(self, weight: torch.nn.Parameter, memory: dict[str, torch.Tensor]) -> None:
        """Puts back what `memory` gave, wherever it has been meanwhile."""
        if memory:
            self._part_of(weight).state[weight] = {
                name: value if name == COUNT else value.to(weight.device)
                for name, value in memory.items()
            }

    def _part_of(self, weight: torch.nn.Parameter) -> torch.optim.Optimizer:
        return next(part for part in self._parts if any(weight is one for one in _weights(part)))


def _weights(part: torch.optim.Optimizer) -> Iterator[torch.nn.Parameter]:
    for group in part.param_groups:
        yield from group["params"]
