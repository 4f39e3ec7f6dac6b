"""A growing sequence of token ids with the chained digest of each of its prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outrider.randomness import GOLDEN, MASK, mix

EMPTY_DIGEST = mix(0)


def extend_digest(digest: int, token_id: int) -> int:
    """The digest of a prefix followed by `token_id`."""
    return mix(digest ^ ((token_id + 1) * GOLDEN & MASK))


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading ids two sequences share."""
    places = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in places if a != b), min(len(one), len(other)))


class TokenPrefix:
    """Token ids and their digests; `digest(i)` covers ids 0 … i − 1."""

    __slots__ = ("_digests", "_token_ids")

    def __init__(self, token_ids: Iterable[int] = ()) -> None:
        self._token_ids: list[int] = []
        self._digests: list[int] = [EMPTY_DIGEST]
        self.extend(token_ids)

    def __len__(self) -> int:
        return len(self._token_ids)

    def copy(self) -> TokenPrefix:
        """Another prefix of the same ids."""
        twin = TokenPrefix()
        twin._token_ids, twin._digests = list(self._token_ids), list(self._digests)
        return twin

    @property
    def token_ids(self) -> Sequence[int]:
        """All ids. Not to be changed by the caller."""
        return self._token_ids

    def digest(self, length: int) -> int:
        """The digest of the first `length` ids."""
        return self._digests[length]

    def extend(self, token_ids: Iterable[int]) -> None:
        """Appends ids."""
        digest = self._digests[-1]
        for token_id in token_ids:
            digest = extend_digest(digest, token_id)
            self._token_ids.append(token_id)
            self._digests.append(digest)

    def truncate(self, length: int) -> None:
        """Keeps the first `length` ids; a prefix shorter than that stays as it is."""
        del self._token_ids[length:]
        del self._digests[length + 1 :]
