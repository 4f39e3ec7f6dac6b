"""What can go wrong in making a draft, said so that the user can put it right."""

from __future__ import annotations


class DistillError(Exception):
    """A draft cannot be made; what was made so far is kept."""
