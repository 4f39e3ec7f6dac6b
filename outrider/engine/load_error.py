"""Why a model cannot be loaded."""

from __future__ import annotations


class ModelLoadError(Exception):
    """The model cannot be served. The message names the path or the layer, and the cause."""
