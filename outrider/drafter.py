"""How a draft comes by its tokens."""

from __future__ import annotations

from enum import StrEnum


class Drafter(StrEnum):
    """Where a draft's tokens come from. The values are those of GetModel."""

    MODEL = "model"
    """Drawn by its model."""
    NGRAM = "ngram"
    """Copied from where the last few ids came before in the same generation."""
    SUFFIX = "suffix"
    """Copied from where the longest end of the text came before, there or in recent outputs."""
    MIXED = "mixed"
    """At each place the likelier of the two: as SUFFIX, or drawn."""

    @property
    def draws(self) -> bool:
        """It has a model that draws tokens."""
        return self in (Drafter.MODEL, Drafter.MIXED)

    @property
    def copies(self) -> bool:
        """It copies tokens from earlier text."""
        return self is not Drafter.MODEL
