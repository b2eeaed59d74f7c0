"""Checks the Host header of requests, for the HTTP servers of a broker that browsers can reach.

Without the check a site whose name resolves to this machine (DNS rebinding) would have the same origin as the server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from urllib.parse import urlsplit


class HostRefused(Exception):
    """The Host header names another host. The message is one line for a person; the response has the status 403."""


def check_host(given: str, served: str, own: Container[str] = ()) -> None:
    """Raise `HostRefused` if the Host header names another host.

    ``served`` is the host on which the server listens, ``own`` has further names of the broker, in lower case. Unless the
    server listens on loopback, names without a dot or below ``.internal`` are accepted too: containers have such names, and public
    name servers do not.
    """
    try:
        name = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        name = ""
    # Allow localhost, which only resolves to this machine, and IP addresses, which no name server can redirect.
    if name in ("localhost", served.lower()) or name in own or _is_address(name):
        return
    is_exposed = served != "localhost" and not (_is_address(served) and ipaddress.ip_address(served).is_loopback)
    if is_exposed and name and ("." not in name or name.endswith(".internal")):
        return
    raise HostRefused("this host name is not accepted; connect by address, such as 127.0.0.1, or by localhost")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
