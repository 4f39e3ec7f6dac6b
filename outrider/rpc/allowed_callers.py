"""Access for callers by the names in their certificates."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.errors import NotAllowed, Unauthenticated
from outrider.rpc.access import Caller, peer_host
from outrider.rpc.handlers import Context

ANY_NAME = "*"
_NAMES = ("peer_uri", "peer_dns")
"""Where gRPC puts the subject alternative names, by their kind. The common name is no identity."""


class AllowedCallers:
    """Admits those whose verified certificate has one of the names, as a URI or for DNS.

    Names are compared as they stand; `*` stands for any certificate that the listener's authority
    has signed.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def admit(self, context: Context) -> Caller:
        """The caller by the first of its names that counts. Raises Unauthenticated, NotAllowed."""
        shown = context.auth_context()
        if "x509_pem_cert" not in shown:
            raise Unauthenticated("a certificate of the caller is needed")
        names = [raw.decode(errors="replace") for kind in _NAMES for raw in shown.get(kind, ())]
        if ANY_NAME in self._names:
            return Caller(name=next(iter(names), peer_host(context)))
        for name in names:
            if name in self._names:
                return Caller(name=name)
        raise NotAllowed("the caller's certificate has no name that may call this service")
