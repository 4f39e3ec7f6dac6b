"""Which token id each column of a logits row stands for."""

from __future__ import annotations

import torch

from outrider.engine.token_hash import token_hashes


class Columns:
    """All ids below a size, or a rising subset of them (a draft head over frequent tokens)."""

    def __init__(self, size: int, subset: torch.Tensor | None = None) -> None:
        """`subset`: int64 [n], rising ids below `size`; None means every id."""
        self.size = size
        self.subset = subset
        self._hashes: torch.Tensor | None = None
        self._below: Columns | None = None

    def __len__(self) -> int:
        return self.size if self.subset is None else int(self.subset.numel())

    def token_ids(self, columns: torch.Tensor) -> torch.Tensor:
        """Column indices, any shape → token ids, same shape."""
        return columns if self.subset is None else self.subset[columns]

    def below(self, size: int) -> Columns:
        """The leading columns, those of ids below `size`. The last ones asked for are kept."""
        if self.size <= size:
            return self
        if self._below is None or self._below.size != size:
            subset = self.subset
            if subset is not None:
                subset = subset[: int(torch.searchsorted(subset, size))]
            self._below = Columns(size, subset)
        return self._below

    def hashes(self, device: torch.device) -> torch.Tensor:
        """The `token_hashes` of all columns: int64 [columns], on that device. Kept."""
        if self._hashes is None or self._hashes.device != device:
            columns = torch.arange(len(self), device=device)
            self._hashes = token_hashes(self.token_ids(columns))
        return self._hashes

    def find(self, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids [n] → (column indices [m], which of the n have a column: bool [n])."""
        if self.subset is None:
            present = token_ids < self.size
            return token_ids[present], present
        places = torch.searchsorted(self.subset, token_ids)
        places = places.clamp(max=len(self) - 1)
        present = self.subset[places] == token_ids
        return places[present], present
