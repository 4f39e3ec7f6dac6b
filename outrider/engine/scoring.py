"""How a layer turns scores into weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from outrider.engine.mask_rule import MaskRule


@dataclass(frozen=True, slots=True)
class Scoring:
    """Everything that decides the weights beside queries and keys.

    `scaling`: what q·k is multiplied with. `window`: of so many positions, its own included, a
    token sees each, where that is all that `rule` says. `softcap`: c, where scores become
    c · tanh(score / c). `sinks`: [query heads], scores of one more position whose value is zero.
    """

    rule: MaskRule
    scaling: float
    window: int | None = None
    softcap: float | None = None
    sinks: torch.Tensor | None = None

    @property
    def plain(self) -> bool:
        """Nothing but a softmax over what the rule lets through."""
        return self.softcap is None and self.sinks is None
