"""One generation as its client saw it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from outrider.v1 import generation_pb2


@dataclass(slots=True)
class Observation:
    """When it was asked for and when its tokens came. All clocks are time.perf_counter, seconds.

    A chunk of n tokens is n tokens that came at once: the gap before the first of them is what its
    reader waited, the others follow at no distance.
    """

    number: int
    """Which request it is; the same one in every setting."""
    asked: float
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """When a chunk came and how many tokens were in it; never 0."""
    token_ids: list[int] = field(default_factory=list)
    ended: float = 0.0
    """When its summary came."""
    stats: generation_pb2.SpeculationStats = field(default_factory=generation_pb2.SpeculationStats)

    @property
    def tokens(self) -> int:
        """Output tokens."""
        return len(self.token_ids)

    @property
    def latency_s(self) -> float:
        """From asking to the end."""
        return self.ended - self.asked

    @property
    def per_token_s(self) -> float | None:
        """Its latency for each output token; None: there was none."""
        return self.latency_s / self.tokens if self.tokens else None

    @property
    def first_token_s(self) -> float | None:
        """From asking to the first token; None: there was none."""
        return self.arrivals[0][0] - self.asked if self.arrivals else None

    @property
    def chunk_gaps_s(self) -> list[float]:
        """Between one chunk and the next."""
        return [later - earlier for (earlier, _), (later, _) in pairwise(self.arrivals)]

    @property
    def token_gaps_s(self) -> list[float]:
        """Between one token and the next: all tokens but the first."""
        return list(self._token_gaps())

    def _token_gaps(self) -> Iterator[float]:
        before: float | None = None
        for when, count in self.arrivals:
            if before is not None:
                yield when - before
            for _ in range(count - 1):
                yield 0.0
            before = when
