"""A controller with an authorizer refuses the requests of brokers that a client without CLUSTER_ACTION sends.

tests/wire/test_controller_denials.py compares the responses with Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.errors import Code
from ottla.simulation.controller import SimulatedController
from tests.broker.controller.denied_requests import CASES, REQUESTS, forged
from tests.broker.handlers.authorised_broker import AUTHORIZER


@pytest.fixture(scope="module")
def secured() -> Iterator[SimulatedController]:
    controller = SimulatedController({"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}).start()
    yield controller
    controller.close()
    assert controller.bugs == 0


@pytest.mark.parametrize(("name", "version"), CASES)
def test_requests_of_brokers_are_denied_without_cluster_action(secured: SimulatedController, name: str, version: int) -> None:
    with secured.connect() as client:
        assert client.call(REQUESTS[name](), version).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    assert secured.server.controller.state.registrations.brokers == {}


def test_denied_envelope_changes_nothing(secured: SimulatedController) -> None:
    with secured.connect() as client:
        assert client.call(forged(), 0).error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    assert secured.server.controller.state.acls.by_id == {}
