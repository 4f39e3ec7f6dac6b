"""What a model is loaded for."""

from __future__ import annotations

from typing import Literal

Role = Literal["target", "draft"]
