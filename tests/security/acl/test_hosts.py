"""Addresses of clients as Java writes them, and the host patterns of ACLs."""

from __future__ import annotations

import pytest

from ottla.security.acl.hosts import check_range, host_address, host_matches


@pytest.mark.parametrize(
    ("address", "javas"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("FD00:0001::00ab", "fd00:1:0:0:0:0:0:ab"),
        ("a:b", "a:b"),
        ("", ""),
    ],
)
def test_client_address_for_acls_is_formatted_like_in_java(address: str, javas: str) -> None:
    assert host_address(address) == javas


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.10", False),
        ("10.1.2.3/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "0.0.0.0", False),
        ("0.0.0.0/0", "0:0:0:0:0:0:0:1", False),
        ("fd00::/8", "fdff:0:0:0:0:0:0:1", True),
        ("fd00::/8", "10.0.0.1", False),
        ("nonsense/8", "10.0.0.1", False),
    ],
)
def test_acl_host_pattern_matches_addresses_and_ranges(pattern: str, host: str, matches: bool) -> None:
    assert host_matches(pattern, host) is matches


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("10.0.0.256/8", "Value [256] not in range [0,255]"),
        ("fd00::/129", "Could not parse [fd00::/129] - prefix length must be between 0 and 128"),
        ("fd00::/x", "Could not parse [fd00::/x] - invalid prefix length"),
        ("fd00::", "Could not parse [fd00::] - missing prefix length"),
        ("::ffff:10.0.0.1/8", "Could not parse [::ffff:10.0.0.1] - not an IPv6 address"),
    ],
)
def test_malformed_acl_host_range_is_refused_with_kafkas_message(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_range(pattern)
    assert str(refused.value) == reason
