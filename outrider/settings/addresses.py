"""Addresses in settings: `host:port`, and whether one leaves this machine."""

from __future__ import annotations

import ipaddress
import re

_TARGET = re.compile(
    r"(?:dns:///)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})"
)
LARGEST_PORT = 65535


def check_listener(address: str) -> str:
    """`address` unchanged. Raises ValueError unless it is host:port with a port of 0 to 65535."""
    if address.startswith("dns:"):
        raise ValueError("host:port, such as 127.0.0.1:7400; port 0 takes a free one")
    if _port(address) is None:
        raise ValueError("host:port, such as 127.0.0.1:7400; port 0 takes a free one")
    return address


def check_peer(address: str) -> str:
    """`address` unchanged. Raises ValueError unless it is host:port with a port of 1 to 65535."""
    if not _port(address):
        raise ValueError("host:port, such as 127.0.0.1:7421, the port 1 to 65535")
    return address


def check_peers(addresses: str) -> str:
    """`addresses` unchanged. Raises ValueError unless it is one or more peers, parted by commas."""
    for address in split_addresses(addresses):
        try:
            check_peer(address)
        except ValueError as error:
            raise ValueError(f"{error}; several are parted by commas") from None
    return addresses


def split_addresses(addresses: str) -> list[str]:
    """The addresses of a list parted by commas, in order, without repeats."""
    return list(dict.fromkeys(address.strip() for address in addresses.split(",")))


def split_port(address: str) -> tuple[str, int]:
    """Host, without brackets, and port of a peer that was checked."""
    host, _, port = address.removeprefix("dns:///").rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """The address cannot be reached from, or does not reach, another machine."""
    found = _TARGET.fullmatch(address)
    host = found["host"].strip("[]") if found else ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _port(address: str) -> int | None:
    found = _TARGET.fullmatch(address)
    port = int(found["port"]) if found else LARGEST_PORT + 1
    return port if port <= LARGEST_PORT else None
