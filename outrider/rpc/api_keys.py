"""Access for callers who show a key.

A key is 256 random bits, so that its plain SHA-256 can be kept in its place and looked up: there
is nothing to guess, and no clock tells how near a guess was.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from outrider.errors import Unauthenticated
from outrider.rpc.access import Caller
from outrider.rpc.handlers import Context
from outrider.rpc.watched_files import FilesError, WatchedFiles

KEY_PREFIX = "or-"
KEY_BYTES = 32
TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
TENANT_FORM = "1 to 64 letters, digits, dots, dashes and underscores"
METADATA_NAME = "authorization"

_LINE = re.compile(rf"(?P<tenant>{TENANT.pattern}):(?P<digest>[0-9a-f]{{64}})")
_BEARER = re.compile(r"bearer +(?P<key>\S+)", re.IGNORECASE)


def new_key() -> str:
    """A key that nobody has."""
    return KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)


def key_line(tenant: str, key: str) -> str:
    """The line that admits a key as one of `tenant`. Raises ValueError for a name that is none."""
    if not TENANT.fullmatch(tenant):
        raise ValueError(TENANT_FORM)
    return f"{tenant}:{_digest(key)}"


def key_metadata(key: str) -> tuple[tuple[str, str], ...]:
    """What a client adds to its calls to show a key; nothing for an empty one."""
    return ((METADATA_NAME, f"Bearer {key}"),) if key else ()


def read_keys(path: Path) -> Mapping[str, str]:
    """SHA-256 of each key → its tenant. Empty lines and those that begin with # do not count.

    Raises FilesError, also for a file without any key, as one is that is being written.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise FilesError(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise FilesError(f"{path} is not a text file") from None
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            raise FilesError(f"{path}: line {number} is not tenant:SHA-256")
        if keys.setdefault(found["digest"], found["tenant"]) != found["tenant"]:
            raise FilesError(f"{path}: line {number} gives a key to a second tenant")
    if not keys:
        raise FilesError(f"{path} holds no key")
    return keys


class KeyHolders:
    """Admits calls with `authorization: Bearer KEY` in their metadata, by a file that is followed.

    A key that is taken out of the file is refused within seconds; calls under way go on.
    """

    def __init__(self, path: Path) -> None:
        """Raises FilesError."""
        self._watched = WatchedFiles([path], lambda: read_keys(path))

    def admit(self, context: Context) -> Caller:
        """The tenant of the key. Raises Unauthenticated, in the same words for any failure."""
        _, keys = self._watched.current()
        tenant = keys.get(_digest(_shown_key(context)))
        if tenant is None:
            raise Unauthenticated(f"a valid key is needed, as metadata {METADATA_NAME}: Bearer KEY")
        return Caller(name=tenant, tenant=tenant)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _shown_key(context: Context) -> str:
    """What the call shows as its key; empty where it shows none, or several."""
    values = [
        value
        for name, value in context.invocation_metadata() or ()
        if name == METADATA_NAME and isinstance(value, str)
    ]
    found = _BEARER.fullmatch(values[0].strip()) if len(values) == 1 else None
    return found["key"] if found else ""
