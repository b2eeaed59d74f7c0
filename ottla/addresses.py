"""Parses addresses: ``HOST:PORT``, ``[IPv6]:PORT``, and lists of them.

An IPv6 address may have a zone, as in ``[fe80::1%eth0]:9092``.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address

from ottla.arguments import BadArgument

MAX_PORT = 65_535
MAX_ADDRESSES = 100
"""Maximum length of a list of bootstrap addresses."""

LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Maps each listen host that means all interfaces to the host by which local clients reach the server."""

Address = tuple[str, int]


def port(text: str) -> int:
    """Parse a TCP port. 0 means any free port. Raises `BadArgument`."""
    if not (text.isascii() and text.isdigit()) or int(text[:6]) > MAX_PORT:
        raise BadArgument(f"{text!r} is not a port, 0 to {MAX_PORT}")
    return int(text)


def split_address(text: str) -> Address:
    """Parse ``HOST:PORT`` or ``[IPv6]:PORT``. Raises `BadArgument`."""
    host, colon, number = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not is_ipv6(host):
            colon = ""
    elif any(character in host for character in ":[]@?#"):
        colon = ""
    if not colon or "/" in host or not number or any(map(str.isspace, host)):
        hint = f"; did you mean 127.0.0.1:{text}?" if text.isascii() and text.isdigit() else ""
        what = "a URL or a path, not" if "/" in text else "not"
        raise BadArgument(f"{text!r} is {what} HOST:PORT, as in 127.0.0.1:9092{hint}")
    return host, port(number)


def is_ipv6(host: str) -> bool:
    """Whether a host is an IPv6 address, possibly with a zone."""
    try:
        IPv6Address(host)
    except AddressValueError:
        return False
    return True


def client_address(host: str) -> str:
    """Normalize a client's address: a socket for IPv4 and IPv6 shows the client ``192.0.2.7`` as ``::ffff:192.0.2.7``."""
    if not host.startswith("::ffff:"):
        return host
    mapped = IPv6Address(host).ipv4_mapped
    return host if mapped is None else str(mapped)


def broker_address(text: str) -> Address:
    """Parse host and port of a broker. Raises `BadArgument`, also for port 0."""
    host, number = split_address(text)
    if not host:
        raise BadArgument(f"{text!r} is not the address of a broker; give HOST:PORT, as in 127.0.0.1:9092")
    if not number:
        raise BadArgument(f"{text!r} has no port between 1 and {MAX_PORT}")
    return host, number


def bootstrap_addresses(text: str) -> list[Address]:
    """Parse ``HOST:PORT[,HOST:PORT...]``. Raises `BadArgument`."""
    addresses = [broker_address(part.strip()) for part in text.split(",")]
    if len(addresses) > MAX_ADDRESSES:
        raise BadArgument(f"{len(addresses)} addresses are too many; at most {MAX_ADDRESSES} are allowed")
    return addresses


def joined_address(address: Address) -> str:
    """Format ``HOST:PORT``, with an IPv6 host in brackets."""
    host, number = address
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
