"""``nc -z HOST PORT``, with which health checks test whether a port is open, because the base image has no netcat."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from typing import Final

from ottla.addresses import Address, port
from ottla.arguments import BadArgument

NC_USAGE: Final = "nc -z [-v] [-w SECONDS] HOST PORT"
CONNECT_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.25
NETCATS: Final = ("/usr/bin/nc", "/usr/bin/ncat")
"""Paths of netcat, which an image that is built from ottla's may contain."""


class PortClosed(Exception):
    """No program accepts connections at the address, or the arguments do not match `NC_USAGE`. The message has one line."""


def nc(arguments: Sequence[str]) -> list[str]:
    """Connect to the port once, and return the lines to print. Raises `PortClosed`. A call with other options runs netcat
    if it is installed."""
    flags, timeout_s, words = "", CONNECT_TIMEOUT_S, []
    remaining = list(arguments)
    try:
        while remaining:
            word = remaining.pop(0)
            if word.startswith("-w"):
                timeout_s = float(word[2:] or remaining.pop(0))
            elif word.startswith("-"):
                flags += word[1:]
            else:
                words.append(word)
        host, number = words
    except (IndexError, ValueError):
        host, number, flags = "", "", ""
    if "z" not in flags or set(flags) - set("nvz46"):
        for path in NETCATS:
            if os.access(path, os.X_OK):
                os.execv(path, ["nc", *arguments])
        raise PortClosed(f"unknown arguments: {' '.join(arguments) or '(none)'}; use {NC_USAGE}")
    try:
        _connect(host, port(number), timeout_s)
    except BadArgument as error:
        raise PortClosed(str(error)) from None
    return [f"{host} {number} open"] if "v" in flags else []


def wait_for_port(addresses: Sequence[Address], timeout_s: float) -> None:
    """Connect to the addresses in turn, until a connection is accepted. Raises `PortClosed` after the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        for host, number in addresses:
            left_s = deadline - time.monotonic()
            try:
                return _connect(host, number, max(left_s, POLL_S))
            except PortClosed:
                if left_s <= 0:
                    raise
        time.sleep(POLL_S)


def _connect(host: str, number: int, timeout_s: float) -> None:
    try:
        socket.create_connection((host, number), timeout_s).close()
    except OSError as error:
        raise PortClosed(f"{host} port {number} is not open: {error.strerror or error}") from None
