"""Messages between a worker and its model process, as bytes on a stream.

A frame is a length of four bytes, then a pickled list of messages. Both ends are this program,
one the other's child, on a socket that nobody else has.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("!I")


def to_frame(messages: Sequence[Any]) -> bytes:
    """Messages as one frame. Raises PicklingError and what else pickling raises."""
    body = pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Puts frames together from the pieces that arrive."""

    def __init__(self) -> None:
        self._arrived = bytearray()

    def feed(self, piece: bytes) -> list[Any]:
        """The messages of all frames that are whole now, in order."""
        arrived = self._arrived
        arrived += piece
        messages: list[Any] = []
        start = 0
        while len(arrived) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(arrived, start)
            end = start + _LENGTH.size + length
            if len(arrived) < end:
                break
            with memoryview(arrived)[start + _LENGTH.size : end] as body:
                messages += pickle.loads(body)  # noqa: S301
            start = end
        del arrived[:start]
        return messages
