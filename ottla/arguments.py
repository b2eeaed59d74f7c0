"""What the command line's flags may hold. Whatever reads the flags shows the text of the errors."""

from __future__ import annotations

import math

from ottla.addresses import BadAddress, bootstrap_addresses, broker_address, split_address
from ottla.addresses import port as port_of

SECONDS_PER_DAY = 86_400


class BadArgument(ValueError):
    """What a flag may not hold; the text is one line that says what is wanted."""


def port(text: str) -> int:
    """A TCP port, or 0 for a free one. Raises `BadArgument`."""
    try:
        return port_of(text)
    except BadAddress as error:
        raise BadArgument(str(error)) from None


def count(text: str) -> int:
    """A number of things, one at least. Raises `BadArgument`."""
    if not (text.isascii() and text.isdigit() and len(text) < 16) or int(text) < 1:
        raise BadArgument(f"{text!r} is not a number of 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0, at most a day. Raises `BadArgument`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= SECONDS_PER_DAY:
        raise BadArgument(f"{text!r} is not a number of seconds above 0")
    return value


def listener(text: str) -> str:
    """Where to listen; without a host on every interface. Raises `BadArgument`."""
    try:
        split_address(text)
    except BadAddress as error:
        raise BadArgument(str(error)) from None
    return text


def address(text: str) -> str:
    """Where a broker is. Raises `BadArgument`."""
    try:
        broker_address(text)
    except BadAddress as error:
        raise BadArgument(str(error)) from None
    return text


def bootstrap(text: str) -> str:
    """Where one or several brokers of a cluster are, with commas between. Raises `BadArgument`."""
    try:
        bootstrap_addresses(text)
    except BadAddress as error:
        raise BadArgument(str(error)) from None
    return text
