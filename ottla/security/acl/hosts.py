"""Addresses of clients in the form that ACLs use, and host patterns of ACLs: ``*``, one address, or a range (CIDR)."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address

from ottla.security.acl.codes import WILDCARD

_IPV4 = r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})"
_IPV4_ADDRESS = re.compile(_IPV4, re.ASCII)
_IPV4_RANGE = re.compile(rf"{_IPV4}/(\d{{1,2}})", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_CACHED_RANGES = 1_024
"""Number of host patterns whose parsed range is cached."""


def host_address(address: str) -> str:
    """Return an address in the form with which ACLs are compared, that of Java's InetAddress.getHostAddress.

    An IPv6 address has all eight groups without leading zeros and keeps its zone; an IPv4 address in IPv6 form becomes IPv4. A text
    that is no address is returned unchanged.
    """
    if ":" not in address:
        return address
    text, percent, zone = address.partition("%")
    try:
        parsed = IPv6Address(text)
    except AddressValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    groups = (int(group, 16) for group in parsed.exploded.split(":"))
    return ":".join(f"{group:x}" for group in groups) + percent + zone


def host_matches(pattern: str, host: str) -> bool:
    """Whether the host of an ACL applies to a client's address, which is in the form of `host_address`."""
    return pattern in (WILDCARD, host) or ("/" in pattern and _is_in_range(pattern, host))


def check_range(pattern: str) -> None:
    """Raise ValueError, in Kafka's words, if ``pattern`` is not a range such as ``10.0.0.0/8`` or ``fd00::/8`` (CidrUtils)."""
    _range_of(pattern)


def _is_in_range(pattern: str, host: str) -> bool:
    try:
        is_ipv6, first, last = _range_of(pattern)
        address = _ipv6(host) if is_ipv6 else _ipv4(host)
    except ValueError:
        return False
    # As in Kafka (SubnetUtils), no range contains 0.0.0.0.
    return first <= address <= last and (is_ipv6 or address != 0)


@lru_cache(_CACHED_RANGES)
def _range_of(pattern: str) -> tuple[bool, int, int]:
    """Return whether a range is of IPv6 addresses, and its first and last address. Raises ValueError."""
    if ":" in pattern:
        return _ipv6_range(pattern)
    found = _IPV4_RANGE.fullmatch(pattern)
    if found is None:
        raise ValueError(f"Could not parse [{pattern}]")
    address = _octets(found)
    host_bits = 32 - _within(int(found[5]), 32)
    first = address >> host_bits << host_bits
    return False, first, first | (1 << host_bits) - 1


def _ipv6_range(pattern: str) -> tuple[bool, int, int]:
    address_text, slash, length_text = pattern.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{pattern}] - missing prefix length")
    if _NUMBER.fullmatch(length_text) is None:
        raise ValueError(f"Could not parse [{pattern}] - invalid prefix length")
    length = int(length_text)
    if not 0 <= length <= 128:
        raise ValueError(f"Could not parse [{pattern}] - prefix length must be between 0 and 128")
    host_bits = 128 - length
    first = _ipv6(address_text) >> host_bits << host_bits
    return True, first, first | (1 << host_bits) - 1


def _ipv6(text: str) -> int:
    """Return an IPv6 address as a number. Raises ValueError, also for an IPv4 address in IPv6 form, which Java converts to IPv4."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ip_address(bare.partition("%")[0])
    except ValueError:
        raise ValueError(f"Could not parse [{text}]") from None
    if isinstance(address, IPv4Address) or address.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{text}] - not an IPv6 address")
    return int(address)


def _ipv4(text: str) -> int:
    found = _IPV4_ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"Could not parse [{text}]")
    return _octets(found)


def _octets(found: re.Match[str]) -> int:
    """Combine the four numbers of an IPv4 address, which are decimal even with leading zeros."""
    number = 0
    for group in range(1, 5):
        number = number << 8 | _within(int(found[group]), 255)
    return number


def _within(value: int, end: int) -> int:
    if value > end:
        raise ValueError(f"Value [{value}] not in range [0,{end}]")
    return value
