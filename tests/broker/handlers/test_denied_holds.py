"""A large request of a client without any permission holds the event loop no longer than one that is allowed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.handlers.registry import declaration
from ottla.simulation.client import api_key
from tests.broker.handlers.authorised_broker import AUTHORIZER
from tests.broker.holds import LOOP_HELD, MeasuredBroker
from tests.broker.large_requests import LINES, MANY, REQUESTS
from tests.support.counting import Meter, check_best


@pytest.fixture
def broker(meter: Meter) -> Iterator[MeasuredBroker]:
    broker = MeasuredBroker(meter, {"authorizer.class.name": AUTHORIZER})
    broker.start()
    broker.with_coordinators()
    yield broker
    broker.stop()
    assert broker.bugs == 0


@pytest.mark.parametrize("name", REQUESTS)
def test_denied_request_with_many_elements_holds_the_loop_briefly(broker: MeasuredBroker, name: str) -> None:
    many = broker.meter.size(MANY)

    def attempt(number: int) -> None:
        request, version = REQUESTS[name](number, many)
        assert declaration(api_key(request)).codec
        with broker.connect() as client:
            broker.meter.longest = 0.0
            client.call(request, version)

    check_best(broker.meter, LOOP_HELD.with_lines(LINES.get(name, LOOP_HELD.lines)), attempt)
