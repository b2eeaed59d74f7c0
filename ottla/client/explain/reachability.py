"""Finds out whether TCP connections to an address succeed, and explains why not: names, addresses, ports, containers."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from ottla.addresses import LOOPBACK, Address, joined_address
from ottla.client.finding import Finding

MAX_TRIED: Final = 8
"""Maximum number of IP addresses of one name to which connections are tried."""
LISTENER_REMEDY: Final = (
    "add a listener for these clients to advertised.listeners, with a name or address that they can reach; the name of a container"
    " is known only inside its network"
)


@dataclass(slots=True, frozen=True)
class Reachability:
    """The IP addresses of a host that accept connections, and the errors of its other IP addresses. ``name_error`` is set if the
    host's name does not resolve."""

    accepting: list[str]
    errors: dict[str, str]
    name_error: str = ""


def reach(address: Address, timeout_s: float) -> Reachability:
    """Resolve a host's name, and open and close a TCP connection to each of its IP addresses."""
    host, port = address
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return Reachability(accepting=[], errors={}, name_error=str(getattr(error, "strerror", None) or error))
    accepting: list[str] = []
    errors: dict[str, str] = {}
    for family, kind, _, _, place in list(dict.fromkeys(entries))[:MAX_TRIED]:
        ip = str(place[0])
        try:
            with socket.socket(family, kind) as raw:
                raw.settimeout(timeout_s)
                raw.connect(place)
            accepting.append(ip)
        except TimeoutError:
            errors[ip] = f"no answer within {timeout_s:g} s"
        except OSError as error:
            errors[ip] = "refused" if error.errno == errno.ECONNREFUSED else (error.strerror or str(error)).lower()
    return Reachability(accepting=accepting, errors=errors)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine under any name: localhost, a loopback address, or all interfaces."""
    try:
        return ip_address(LOOPBACK.get(host, host)).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def is_ip(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def reached(check: str, what: str, address: Address, found: Reachability) -> Finding | None:
    """Return a finding if connections to all or some of the IP addresses cannot be opened, else None.

    ``what`` begins the finding's text: the address, or a statement that a broker advertises it.
    """
    host, port = address
    if found.name_error:
        return Finding(
            check=check,
            status="failed",
            text=f"{what}: the name {host!r} does not resolve here ({found.name_error})",
            remedy="give a name that this machine resolves" + ("" if "." in host else f"; {host!r} may be a container's name"),
        )
    if not found.accepting:
        reasons = sorted(set(found.errors.values()))
        tried = "" if is_ip(host) else f" ({', '.join(found.errors)})"
        return Finding(
            check=check, status="failed", text=f"{what}{tried}: {', '.join(reasons)}", remedy=_remedy(host, port, reasons)
        )
    if found.errors:
        other = ", ".join(f"{ip} ({reason})" for ip, reason in found.errors.items())
        return Finding(
            check=check,
            status="warning",
            text=f"{host} accepts connections at {', '.join(found.accepting)}, but not at {other}",
            remedy=f"some clients try one address only; give {joined_address((found.accepting[0], port))}, or listen on both",
        )
    return None


def _remedy(host: str, port: int, reasons: Iterable[str]) -> str:
    if "refused" in reasons:
        if is_loopback(host):
            return f"start a broker (ottla serve), or publish its port if it is in a container (docker run -p {port}:{port})"
        return f"check that a broker runs there and that listeners has port {port} on this interface, not on 127.0.0.1 only"
    return "check address, route and firewall between this machine and the broker"
