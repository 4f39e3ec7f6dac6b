"""What the addresses of a pool stand for: a replica for each, looked up again and again."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from outrider.settings.addresses import split_port

log = structlog.get_logger(__name__)

LOCAL_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one replica listens, host:port. `server_name`: the host that its certificate names, if
    that is another."""

    address: str
    server_name: str = ""


Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host name and a port to IP addresses. Raises OSError."""


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """The system's answer. A pod that has an address of each kind counts once, by its IPv4 one."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    by_kind: dict[int, list[str]] = {}
    for kind, _, _, _, place in found:
        by_kind.setdefault(kind, []).append(str(place[0]))
    return by_kind.get(socket.AF_INET) or by_kind.get(socket.AF_INET6, [])


class Endpoints:
    """The endpoints behind a list of addresses. IP addresses stand for themselves."""

    def __init__(self, addresses: Sequence[str], *, resolve: Resolve | None = None) -> None:
        """`addresses`: host:port each, checked. `resolve`: by default the system's names."""
        self._addresses = addresses
        self._resolve = resolve or resolve_name
        self._known: dict[str, list[Endpoint]] = {}
        self.faults: dict[str, str] = {}
        """Why a name stands for nothing at the moment, by address."""

    @property
    def configured(self) -> bool:
        """There is an address at all."""
        return bool(self._addresses)

    async def look_up(self) -> list[Endpoint]:
        """All endpoints, without repeats. A name that cannot be looked up stands for what it did
        before."""
        found = await asyncio.gather(*map(self._stands_for, self._addresses))
        self._known = dict(zip(self._addresses, found, strict=True))
        everything = (endpoint for address in self._addresses for endpoint in self._known[address])
        return list({endpoint.address: endpoint for endpoint in everything}.values())

    async def _stands_for(self, address: str) -> list[Endpoint]:
        host, port = split_port(address)
        if host == LOCAL_NAME or _is_ip(host):
            return [Endpoint(address)]
        try:
            found = await self._resolve(host, port)
        except OSError as error:
            fault = f"its name is not known: {error.strerror or error}"
            if address not in self.faults:
                log.warning("name not looked up", address=address, reason=fault)
            self.faults[address] = fault
            return self._known.get(address, [])
        self.faults.pop(address, None)
        return [Endpoint(_joined(ip, port), host) for ip in found]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _joined(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
