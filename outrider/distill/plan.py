"""All that decides what a distillation does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

AUTO = "auto"
LOSS_NAMES = ("forward-kl", "reverse-kl", "total-variation")


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillPlan:
    """Tokens are ids. Shares are 0 to 1.

    `out`: the draft's folder. `work`: what is kept to go on from. `prompts`, `held_out`: files of
    prompts; `texts`: files of plain text. `held_out_texts`: how many are kept for judging where no
    file says which, at most. `own_turns`: share of the texts whose user's turn the
    target writes too. `written_tokens`: how much the target writes. `layers`: which of the
    target's, or how many. `loss`: one of LOSSES, or AUTO. `begin_from`: a draft to go on from,
    by the folder, hub id or `embedded` that a worker would load.
    `tokens`: how much is learnt from, over and over if it is more than there is.
    """

    out: Path
    work: Path
    target: str = "embedded"
    prompts: Path | None = None
    held_out: Path | None = None
    texts: Sequence[Path] = field(default_factory=tuple)
    held_out_texts: int = 48
    own_turns: float = 0.35
    written_tokens: int = 1_000_000
    longest: int = 192
    layers: int | tuple[int, ...] = 5
    vocabulary: int = 8192
    loss: str = AUTO
    begin_from: Path | None = None
    tokens: int = 5_000_000
    trial_tokens: int = 150_000
    batch_tokens: int = 4096
    learning_rate: float = 1e-3
    judge_every: int = 250_000
    verify_every: int = 1_000_000
    verify_prompts: int = 8
    verify_tokens: int = 64
    side_by_side: int = 128
    seed: int = 0
    dtype: str = "auto"
    device: str = "auto"
    threads: int = 0

    @property
    def texts_in_part(self) -> int:
        """Texts that are written before they are put on disk."""
        return 4 * self.side_by_side
