"""How draft tokens are judged, as an option of commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from outrider.v1 import common_pb2


class VerificationChoice(StrEnum):
    """A rule; `auto`: COUPLED for a request with a seed, REJECTION for any other."""

    AUTO = "auto"
    REJECTION = "rejection"
    COUPLED = "coupled"

    @property
    def message(self) -> common_pb2.Verification.ValueType:
        """The contract's word for it; `auto` leaves the field unset."""
        return {
            VerificationChoice.AUTO: common_pb2.VERIFICATION_UNSPECIFIED,
            VerificationChoice.REJECTION: common_pb2.VERIFICATION_REJECTION,
            VerificationChoice.COUPLED: common_pb2.VERIFICATION_COUPLED,
        }[self]


Verification = Annotated[
    VerificationChoice,
    typer.Option(
        help="How draft tokens are judged. coupled: the output depends on the seed alone, not on "
        "the draft; rejection: more of them are accepted. auto: coupled where a seed is given."
    ),
]
