"""Findings about connections: names, refused and unreachable addresses, IPv4 and IPv6."""

from __future__ import annotations

import pytest

from ottla.client.explain.reachability import Reachability, is_loopback, reached
from ottla.client.finding import Finding


def finding(host: str, accepting: list[str], errors: dict[str, str], name_error: str = "") -> Finding | None:
    return reached("TCP", f"{host}:9092", (host, 9092), Reachability(accepting=accepting, errors=errors, name_error=name_error))


def test_doctor_reports_nothing_about_a_reachable_address() -> None:
    assert finding("localhost", ["127.0.0.1", "::1"], {}) is None


def test_doctor_warns_of_a_broker_that_listens_only_on_ipv4() -> None:
    found = finding("localhost", ["127.0.0.1"], {"::1": "refused"})
    assert found is not None and found.status == "warning"
    assert found.text == "localhost accepts connections at 127.0.0.1, but not at ::1 (refused)"
    assert "give 127.0.0.1:9092" in found.remedy


def test_doctor_warns_of_a_broker_that_listens_only_on_ipv6() -> None:
    found = finding("localhost", ["::1"], {"127.0.0.1": "refused"})
    assert found is not None and "give [::1]:9092" in found.remedy


@pytest.mark.parametrize(
    ("host", "errors", "text", "remedy"),
    [
        ("127.0.0.1", {"127.0.0.1": "refused"}, "127.0.0.1:9092: refused", "start a broker (ottla serve)"),
        (
            "localhost",
            {"::1": "refused", "127.0.0.1": "refused"},
            "localhost:9092 (::1, 127.0.0.1): refused",
            "docker run -p 9092:9092",
        ),
        ("10.0.0.1", {"10.0.0.1": "refused"}, "10.0.0.1:9092: refused", "not on 127.0.0.1 only"),
        (
            "10.0.0.1",
            {"10.0.0.1": "no answer within 3 s"},
            "10.0.0.1:9092: no answer within 3 s",
            "check address, route and firewall",
        ),
    ],
)
def test_doctor_reports_an_address_with_a_closed_port_as_failed(host: str, errors: dict[str, str], text: str, remedy: str) -> None:
    found = finding(host, [], errors)
    assert found is not None
    assert (found.status, found.text) == ("failed", text)
    assert remedy in found.remedy


@pytest.mark.parametrize(("host", "is_container"), [("kafka", True), ("broker.example.com", False)])
def test_doctor_reports_a_host_name_that_does_not_resolve_as_failed(host: str, is_container: bool) -> None:
    found = finding(host, [], {}, "Name or service not known")
    assert found is not None
    assert found.text == f"{host}:9092: the name {host!r} does not resolve here (Name or service not known)"
    assert ("container" in found.remedy) == is_container


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.5", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("a.localhost", True),
        ("10.0.0.1", False),
        ("kafka", False),
    ],
)
def test_doctor_recognises_loopback_hosts(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
