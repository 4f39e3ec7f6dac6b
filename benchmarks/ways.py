"""Ways to use the draft, as requests ask for them."""

from __future__ import annotations

from outrider.v1 import generation_pb2

Way = generation_pb2.SpeculationParams

OFF = Way(mode=generation_pb2.SPECULATION_MODE_OFF)
AUTO = Way(mode=generation_pb2.SPECULATION_MODE_AUTO)
"""Everything is left to the coordinator."""


def fixed(draft_length: int) -> Way:
    """As many draft tokens in every round; the rest is left to the coordinator. 0: OFF."""
    if not draft_length:
        return OFF
    return Way(mode=generation_pb2.SPECULATION_MODE_ON, draft_length=draft_length)


def synchronous(draft_length: int) -> Way:
    """The draft works while the target waits, and the reverse. 0: OFF."""
    way = Way()
    way.CopyFrom(fixed(draft_length))
    if draft_length:
        way.draft_ahead, way.branches = False, 0
    return way
