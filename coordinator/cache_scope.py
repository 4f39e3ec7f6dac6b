"""Whose cached KV state a generation may share."""

from __future__ import annotations

from hashlib import blake2b

SCOPE_BYTES = 16


def cache_scope(tenant: str) -> bytes:
    """The scope of one tenant, opaque to the workers. Requests without a tenant have `""`."""
    return blake2b(tenant.encode(), digest_size=SCOPE_BYTES, person=b"outrider.scope").digest()
