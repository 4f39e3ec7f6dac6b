"""Which replica a generation goes to: the same for all coordinators, without a word between them.

Rendezvous hashing (Thaler and Ravishankar 1998): each replica has a rank for a key, the highest
takes it, so that prompts that begin alike meet the KV state of those before them, and a replica
that comes or goes moves its own share only. The load is bounded (Mirrokni, Thorup and Zadimoghaddam
2018): one that has more than its share is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.replica import Replica

LOAD_FACTOR = 1.25
"""How much more than an equal share of all generations one replica may have."""
KEY_TOKENS = 64
"""So many of a prompt's first ids make its key: prompts that differ only later go together."""


def placement_key(scope: bytes, token_ids: Sequence[int]) -> bytes:
    """The key of a prompt within a cache scope."""
    first = ",".join(map(str, token_ids[:KEY_TOKENS]))
    return blake2b(scope + b"/" + first.encode(), digest_size=16).digest()


def choose(key: bytes, replicas: Sequence[Replica]) -> Replica | None:
    """The highest in rank that does not have more than its share; None where there is none."""
    if len(replicas) <= 1:
        return replicas[0] if replicas else None
    share = (sum(replica.load for replica in replicas) + 1) / len(replicas)
    most = math.ceil(LOAD_FACTOR * share)
    ranked = sorted(replicas, key=lambda replica: _rank(key, replica.address), reverse=True)
    return next(replica for replica in ranked if replica.load < most)


class Placement:
    """The replicas that may serve one generation."""

    def __init__(
        self,
        key: bytes,
        replicas: Callable[[], Sequence[Replica]],
        *,
        fits: Callable[[Replica], bool],
    ) -> None:
        """`replicas`: all there are at this moment. `fits`: is well, and can serve it."""
        self._key = key
        self._replicas = replicas
        self._fits = fits

    def best(self, *, besides: Collection[Replica] = ()) -> Replica | None:
        """Where to go now; None: nowhere. Those in `besides` only where there is no other."""
        admitted = [one for one in self._replicas() if one.admits and self._fits(one)]
        others = [replica for replica in admitted if replica not in besides]
        return choose(self._key, others or admitted)

    @property
    def any(self) -> bool:
        """There are some, be they at rest after failures."""
        return any(map(self._fits, self._replicas()))

    def holds(self, replica: Replica) -> bool:
        """It may go on serving."""
        return self._fits(replica)


def _rank(key: bytes, address: str) -> bytes:
    return blake2b(key + address.encode(), digest_size=8).digest()
