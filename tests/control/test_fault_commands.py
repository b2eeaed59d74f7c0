"""Faults that the control API refuses because the broker could never trigger them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.control.command import CommandRefused
from ottla.control.fault_commands import FAULT_COMMANDS
from ottla.control.faults.fault import Fault

ADD = next(command for command in FAULT_COMMANDS if (command.method, command.path) == ("POST", "/v1/faults"))


def add(fault: Fault, **listeners: SecurityProtocol) -> list[Fault]:
    """Add a fault to a broker with these listeners. Returns the added faults."""
    added: list[Fault] = []
    advertised = [(name, "here", 9092, protocol.value) for name, protocol in listeners.items()]
    controlled = SimpleNamespace(
        broker=SimpleNamespace(addresses=SimpleNamespace(all_advertised=advertised)),
        faults=SimpleNamespace(add_all=lambda faults: added.extend(faults) or []),
    )
    asyncio.run(cast(Any, ADD.run)(controlled, [fault]))
    return added


@pytest.mark.parametrize("pattern", [None, "INSIDE", "IN*", "*"])
def test_handshake_fault_is_accepted_for_a_listener_with_tls(pattern: str | None) -> None:
    fault = Fault(fail_handshake=True, listener=pattern)
    assert add(fault, OUTSIDE=SecurityProtocol.PLAINTEXT, INSIDE=SecurityProtocol.SASL_SSL) == [fault]


@pytest.mark.parametrize(
    ("pattern", "listeners", "message"),
    [
        (
            "INSDIE",
            {"INSIDE": SecurityProtocol.SSL, "OUTSIDE": SecurityProtocol.PLAINTEXT},
            "on INSDIE: the listeners with TLS are INSIDE",
        ),
        (
            "OUTSIDE",
            {"INSIDE": SecurityProtocol.SSL, "OUTSIDE": SecurityProtocol.PLAINTEXT},
            "on OUTSIDE: the listeners with TLS are INSIDE",
        ),
        (None, {"OUTSIDE": SecurityProtocol.SASL_PLAINTEXT}, "on any listener: no listener has TLS"),
    ],
)
def test_handshake_fault_without_a_listener_with_tls_is_refused(
    pattern: str | None, listeners: dict[str, SecurityProtocol], message: str
) -> None:
    with pytest.raises(CommandRefused, match=f"no TLS handshake can fail {message}") as caught:
        add(Fault(fail_handshake=True, listener=pattern), **listeners)
    assert caught.value.status == 400
