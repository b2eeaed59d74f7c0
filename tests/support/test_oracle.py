"""Waits for named conditions, with scripted responses in place of a broker."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.errors import Unreachable
from ottla.protocol.errors import Code
from ottla.protocol.messages.find_coordinator import FindCoordinatorResponse
from tests.support import oracle


class Clock:
    """A clock that advances only while a test waits."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def sleep(self, ms: float) -> None:
        self.ms += ms


class Broker:
    """A client whose broker returns scripted responses. The last response is repeated."""

    bootstrap = "127.0.0.1:9092"

    def __init__(self, *responses: Any) -> None:
        self.clock = Clock()
        self._responses = list(responses)

    def call(self, request: Any, version: int | None = None) -> Any:
        return self._responses.pop(0) if len(self._responses) > 1 else self._responses[0]


def coordinator(code: Code) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=code)


def test_oracle_wait_returns_the_first_value_that_meets_the_condition() -> None:
    values = iter(range(10))
    assert oracle.wait_for("three", lambda: next(values), (3).__eq__, clock=Clock()) == 3
    assert next(values) == 4


def test_failed_oracle_wait_names_condition_broker_and_last_value() -> None:
    broker = Broker(coordinator(Code.COORDINATOR_NOT_AVAILABLE))
    with pytest.raises(oracle.ConditionNotMet) as raised:
        oracle.coordinator_known(broker, "shop", oracle.GROUP)
    assert str(raised.value) == (
        "condition not met within 60 s on 127.0.0.1:9092: the coordinator of 'shop' (key type 0) is known; "
        f"last value: {Code.COORDINATOR_NOT_AVAILABLE!r}"
    )
    assert broker.clock.now_ms() >= 60_000


def test_oracle_retries_find_coordinator_until_a_coordinator_is_available() -> None:
    broker = Broker(coordinator(Code.COORDINATOR_NOT_AVAILABLE), coordinator(Code.NONE))
    oracle.coordinator_known(broker, "shop", oracle.GROUP)
    assert 0 < broker.clock.now_ms() < 1_000


def test_oracle_wait_for_readiness_returns_a_response_with_a_non_retriable_error() -> None:
    refused = coordinator(Code.GROUP_AUTHORIZATION_FAILED)
    broker = Broker(coordinator(Code.COORDINATOR_LOAD_IN_PROGRESS), coordinator(Code.NOT_COORDINATOR), refused)
    assert oracle.ready(broker, coordinator(Code.NONE), 3, lambda answer: [answer.error_code]) is refused


def test_failed_oracle_wait_reports_a_retriable_exception_as_last_value() -> None:
    def look() -> None:
        raise Unreachable("no broker at 127.0.0.1:9092")

    with pytest.raises(oracle.ConditionNotMet, match="last value: Unreachable: no broker at 127"):
        oracle.wait_for("the broker is up", look, clock=Clock(), not_yet=Unreachable)


def test_wait_for_apache_kafka_ends_at_a_non_retriable_exception() -> None:
    def look() -> None:
        raise Unreachable("no broker at 127.0.0.1:9092")

    clock = Clock()
    with pytest.raises(Unreachable):
        oracle.wait_for("the broker is up", look, clock=clock)
    assert clock.now_ms() == 0
