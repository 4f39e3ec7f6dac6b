"""How a draft comes by its tokens: by its model, by copying from earlier text, or by both."""

from __future__ import annotations

from outrider.drafter import Drafter
from outrider.v1 import model_pb2

COPIES = "copies"
"""The feature of a draft that copies tokens from earlier text."""
WITHOUT_MODEL = [drafter.value for drafter in Drafter if not drafter.draws]
"""Where nothing fits these propose nothing."""


def copies(model: model_pb2.GetModelResponse) -> bool:
    """That draft copies tokens where it is asked to."""
    return COPIES in model.features


def draws(model: model_pb2.GetModelResponse) -> bool:
    """It has a model to draw tokens with."""
    return model.drafter not in WITHOUT_MODEL
