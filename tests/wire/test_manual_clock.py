"""Stock clients and a broker whose clock is advanced by the test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker, ControlError
from ottla.cli import main
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wire


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(clock="manual") as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Broker:
    shared.reset()
    return shared


def transaction(broker: Broker, timeout_ms: int) -> Producer:
    """Begin a transaction, write a record to the topic orders, and return the producer."""
    options = {
        "bootstrap.servers": broker.bootstrap,
        "transactional.id": f"shop-{timeout_ms}",
        "transaction.timeout.ms": timeout_ms,
    }
    producer = Producer(options)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"hidden")
    assert producer.flush(60) == 0
    return producer


def committed_end(broker: Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", "isolation.level": "read_committed"})
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=60)[1]
        return end
    finally:
        consumer.close()


def test_transactions_time_out_only_by_the_manual_clock(broker: Broker) -> None:
    short, long = transaction(broker, 60_000), transaction(broker, 120_000)
    broker.clock.advance("59s")
    assert committed_end(broker) == 0
    broker.clock.advance("2s")
    # The first transaction is aborted, so the last stable offset is 1, the offset of the second transaction's record.
    assert committed_end(broker) == 1
    with pytest.raises(KafkaException):
        short.commit_transaction(60)
    long.commit_transaction(60)
    assert committed_end(broker) == 4


@pytest.fixture
def at_the_prompt(broker: Broker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that runs a command and returns its output. The environment contains the broker's control API."""

    def run(*arguments: str, control_api: bool = True) -> str:
        with monkeypatch.context() as environment:
            for name in ("url", "token") if control_api else ():
                environment.setenv(f"OTTLA_CONTROL_{name.upper()}", broker.ready["control"][name])
            assert main([*arguments[:2], "--bootstrap", broker.bootstrap, *arguments[2:]]) == 0
        return capsys.readouterr().out

    return run


def test_commands_measure_open_transactions_by_the_brokers_manual_clock(broker: Broker, at_the_prompt: Callable[..., str]) -> None:
    broker.clock.advance("30d")
    producer = transaction(broker, 60_000)
    broker.clock.advance("500ms")
    assert ", open for 0.5 s, times out in 59.5 s;" in at_the_prompt("txn", "why", "orders")
    assert json.loads(at_the_prompt("txn", "why", "orders", "--json"))[0]["open_ms"] == 500
    assert "open for          0.5 s, times out in 59.5 s" in at_the_prompt("txn", "describe", "shop-60000")
    # Without the control API the command knows only the machine's own clock, which shows an earlier time than the broker's.
    assert "open for an unknown time, because the broker's clock is ahead" in at_the_prompt(
        "txn", "why", "orders", control_api=False
    )
    assert json.loads(at_the_prompt("txn", "why", "orders", "--json", control_api=False))[0]["open_ms"] is None
    assert "an unknown time" in at_the_prompt("txn", "describe", "shop-60000", control_api=False)
    producer.abort_transaction(60)


def test_commands_do_not_read_the_time_from_the_control_api_of_another_cluster(
    broker: Broker, at_the_prompt: Callable[..., str]
) -> None:
    with Broker() as other:
        broker.clock.advance("30d")
        producer = transaction(other, 60_000)
        told = at_the_prompt("txn", "describe", "shop-60000", "--bootstrap", other.bootstrap)
        producer.abort_transaction(60)
    assert "open for          0." in told


def test_advanced_manual_clock_expires_records(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"retention.ms": "3600000", "segment.ms": "60000"}
    (made,) = admin.create_topics([NewTopic("orders", 1, config=config)]).values()
    made.result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", b"old")
    assert producer.flush(60) == 0
    broker.clock.advance("50m")
    producer.produce("orders", b"new")
    assert producer.flush(60) == 0
    broker.clock.advance("20m")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=60) == (1, 2)
    finally:
        consumer.close()


def test_advanced_manual_clock_expires_committed_offsets(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("orders", b"1")
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def offset() -> int:
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g", [TopicPartition("orders", 0)])]).values()
        committed: int = asked.result(60).topic_partitions[0].offset
        return committed

    broker.clock.advance("6d")
    assert offset() == 1
    broker.clock.advance("2d")
    assert offset() == -1001


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_members_join_and_leave_while_the_manual_clock_is_stopped(broker: Broker, protocol: str) -> None:
    """Fetches return and rebalances complete, although the manual clock does not advance."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    options = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "group.protocol": protocol}
    members = [Consumer(options) for _ in range(2)]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (made,) = admin.create_topics([NewTopic("orders", 2)]).values()
    made.result(60)
    for member in members:
        member.subscribe(["orders"])

    def assigned(count: int) -> bool:
        for member in members:
            member.poll(0.05)
        return [len(member.assignment()) for member in members] == [count] * len(members)

    wait_until(lambda: assigned(1))
    producer.produce("orders", b"1")
    assert producer.flush(60) == 0
    members.pop().close()
    wait_until(lambda: assigned(2))
    members.pop().close()


def test_records_written_after_a_manual_clock_advance_have_the_new_time(broker: Broker) -> None:
    broker.clock.advance("30d")
    transaction(broker, 60_000).commit_transaction(60)
    broker.clock.advance("1h")
    assert [record.timestamp_ms for record in broker.records("orders")] == [broker.clock.now_ms - 3_600_000]


def test_manual_clock_keeps_its_time_across_restart_and_reset(broker: Broker) -> None:
    broker.clock.advance("30d")
    before_ms = broker.clock.now_ms
    broker.restart(kill=True)
    assert broker.clock.now_ms == before_ms
    broker.reset()
    assert broker.clock.now_ms == before_ms


def test_invalid_manual_clock_advances_are_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        broker.clock.advance("soon")
    with pytest.raises(ControlError, match="the clock cannot be advanced by"):
        broker.clock.advance("99999d")
    with Broker() as by_the_machine, pytest.raises(ControlError, match="uses the machine's clock"):
        by_the_machine.clock.advance("1s")
    with pytest.raises(ValueError, match="clock: 'still' is neither machine nor manual"):
        Broker(clock="still")
