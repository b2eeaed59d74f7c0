"""While a share coordinator is loading or on another broker, members wait and get only errors that share consumers can handle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import StateRead
from ottla.protocol.errors import Code, KafkaError
from ottla.simulation.broker import SimulatedBroker
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.share_world import ACCEPT, Sharer, acquired, partition_of, produce, set_group

ABSENT = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE)


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 2)
        set_group(client, auto_offset_reset="earliest")
        produce(client, 3)
    yield broker
    broker.close()
    assert broker.bugs == 0


def absent(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, code: Code) -> None:
    """Make reads of share state fail with ``code`` until `monkeypatch` is undone."""

    def refuse(key: ShareKey, leader_epoch: int) -> StateRead:
        raise KafkaError(code)

    monkeypatch.setattr(broker.broker.share_states, "read", refuse)


@pytest.mark.parametrize("code", ABSENT)
def test_share_fetch_without_a_share_coordinator_waits_and_has_no_error(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, code: Code
) -> None:
    a = Sharer(broker, "a").joined()
    absent(broker, monkeypatch, code)
    began_ms = broker.now_ms()
    assert a.fetch(max_wait_ms=2_000).responses == []
    assert broker.now_ms() - began_ms >= 2_000
    assert partition_of(a.fetch()) is None


def test_parked_share_fetch_gets_records_once_the_share_coordinator_is_available(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Sharer(broker, "a").joined()
    absent(broker, monkeypatch, Code.COORDINATOR_LOAD_IN_PROGRESS)
    sent = a.client.send(a.fetch_request(max_wait_ms=5_000), 2)
    broker.sleep(500)
    monkeypatch.undo()
    began_ms = broker.now_ms()
    assert acquired(a.took(a.client.receive(sent))) == [(0, 2, 1)]
    assert broker.now_ms() - began_ms < 1_000


def test_share_fetch_of_a_partition_does_not_wait_for_other_share_coordinators(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, states = Sharer(broker, "a", partitions=(0, 1)).joined(), broker.broker.share_states
    read = states.read

    def refuse_first(key: ShareKey, leader_epoch: int) -> StateRead:
        if key.partition == 0:
            raise KafkaError(Code.NOT_COORDINATOR)
        return read(key, leader_epoch)

    monkeypatch.setattr(states, "read", refuse_first)
    with broker.connect() as client:
        produce(client, 2, partition=1)
    answer = a.fetch(max_wait_ms=5_000)
    assert (partition_of(answer, 0), acquired(answer, 1)) == (None, [(0, 1, 1)])


def test_share_fetch_returns_non_retriable_errors_of_the_share_coordinator(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Sharer(broker, "a").joined()
    absent(broker, monkeypatch, Code.GROUP_ID_NOT_FOUND)
    data = partition_of(a.fetch(max_wait_ms=5_000))
    assert data is not None and data.error_code == Code.GROUP_ID_NOT_FOUND


def test_share_fetch_of_a_loaded_partition_does_not_read_its_state_again(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Sharer(broker, "a").joined()
    assert a.acquire() == [(0, 2, 1)]
    absent(broker, monkeypatch, Code.NOT_COORDINATOR)
    assert a.acquire(((0, 2, ACCEPT),)) == []


def test_absent_share_coordinator_is_logged_once(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    a = Sharer(broker, "a").joined()
    absent(broker, monkeypatch, Code.NOT_COORDINATOR)
    with capture_logs() as lines:
        a.fetch(max_wait_ms=2_000)
    (line,) = [line for line in lines if line["event"] == "share_state_not_read"]
    assert (line["group"], line["partition"], line["reason"]) == ("g", 0, "NOT_COORDINATOR")
