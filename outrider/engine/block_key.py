"""Names for the content of KV blocks, so that equal prefixes of one scope are found again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

KEY_BYTES = 16


def block_key(scope: bytes, parent: bytes, token_ids: Sequence[int]) -> bytes:
    """128-bit BLAKE2b over the cache scope, the key of the block before, and the block's ids.

    `parent` is empty for the first block. Different scopes never share a name.
    """
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    digest.update(len(scope).to_bytes(4, "little"))
    digest.update(scope)
    digest.update(parent)
    for token_id in token_ids:
        digest.update(token_id.to_bytes(8, "little"))
    return digest.digest()
