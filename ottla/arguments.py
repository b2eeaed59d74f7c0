"""What the command line's flags may hold; argparse shows the text of the errors."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError

MAX_PORT = 65_535


def port(text: str) -> int:
    """A TCP port, or 0 for a free one."""
    if not (text.isascii() and text.isdigit()) or int(text[:6]) > MAX_PORT:
        raise ArgumentTypeError(f"{text!r} is not a port, 0 to {MAX_PORT}")
    return int(text)


def count(text: str) -> int:
    """A number of things, one at least."""
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 86_400:
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def split_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT`` or ``[IPv6]:PORT``. Raises `ArgumentTypeError`."""
    host, colon, number = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or "/" in host or not number:
        hint = f"; did you mean 127.0.0.1:{text}?" if text.isascii() and text.isdigit() else ""
        raise ArgumentTypeError(f"{text!r} is not HOST:PORT, as in 127.0.0.1:9092{hint}")
    return host, port(number)


def listener(text: str) -> str:
    """Where to listen; without a host on every interface."""
    split_address(text)
    return text


def address(text: str) -> str:
    """Where a broker is."""
    host, number = split_address(text)
    if not host or not number:
        raise ArgumentTypeError(f"{text!r} is no broker's address; HOST:PORT is wanted, as in 127.0.0.1:9092")
    return text
