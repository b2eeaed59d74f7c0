"""Clients of plain listeners do not pay for TLS, SASL, ACLs and quotas.

Executed instructions are counted (`benchmarks.instructions`), so the tests do not depend on the load of the machine.
"""

from __future__ import annotations

from functools import cache

import pytest

from benchmarks.instructions import Counted, Load
from ottla.testing.security.broker_security import AUTHORIZER

ROUNDS = 2
KINDS = ("transaction", "produce", "fetch")
SASL = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "connections.max.reauth.ms": "60000",
}
ACLS = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
SECURITY_CODE = (
    "/ottla/security/",
    "/broker/apis/authori",
    "/broker/apis/request_authorizer",
    "/broker/network/sasl_dispatch",
    "/broker/network/secured",
    "/broker/network/tls",
    "/broker/network/throttle",
    "/broker/network/within_quotas",
    "/quota",
    "_quota",
)
"""Parts of the paths of modules that implement TLS, SASL, ACLs and quotas."""


@cache
def counted(*settings: tuple[str, str]) -> dict[str, Counted]:
    """Count each kind of work of a client of the plain listener."""
    load = Load(1, dict(settings))
    try:
        return {kind: Counted(load, getattr(load, kind), ROUNDS) for kind in KINDS}
    finally:
        load.broker.abandon()


def instructions(figures: Counted, *paths: str) -> int:
    """Return the number of executed instructions, of all modules or of those whose path has one of the texts."""
    return sum(
        count for code, count in figures.instructions.items() if not paths or any(path in code.co_filename for path in paths)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_plain_client_of_a_broker_with_a_sasl_listener_costs_the_same(kind: str) -> None:
    plain, beside_sasl = counted()[kind], counted(*SASL.items())[kind]
    assert instructions(plain) > 1_000 * ROUNDS
    assert instructions(beside_sasl) == instructions(plain)


@pytest.mark.parametrize("kind", KINDS)
def test_security_that_is_not_configured_costs_less_than_1_percent(kind: str) -> None:
    figures = counted()[kind]
    assert instructions(figures, *SECURITY_CODE) <= 0.01 * instructions(figures)


@pytest.mark.parametrize("kind", KINDS)
def test_authorizer_costs_less_than_6_percent(kind: str) -> None:
    plain, authorized = instructions(counted()[kind]), instructions(counted(*ACLS.items())[kind])
    assert plain < authorized < 1.06 * plain
    assert instructions(counted(*ACLS.items())[kind], *SECURITY_CODE) > 0
