"""Faults that show surprising behaviour of a stock client. A test fails if a new version of the client behaves differently.

docs/client-faults.md describes each case. Update the page and the test together.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidTxnState
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from ottla import Broker, recipes

pytestmark = pytest.mark.full
RETURNS_WITHIN_S = 25
"""Time limit of a test, in seconds: the call's own timeout is 10 s."""
READS_NOTHING_S = 15
"""A consumer that gets no record for this many seconds is stuck, because a retry takes less than one second."""
DELIVERY_S = 12.0
"""Delivery timeout of a producer, in seconds."""
SEND_OFFSETS_AFTER_A_RESTART = """
import sys
import confluent_kafka as ck
from ottla import Broker
with Broker() as broker:
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "x"})
    producer.init_transactions(20)
    consumer = ck.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    for attempt in (1, 2):
        producer.begin_transaction()
        producer.produce("t", b"v")
        print("sending", attempt, flush=True)
        producer.send_offsets_to_transaction([ck.TopicPartition("t", 0, attempt)], consumer.consumer_group_metadata(), 10)
        print("sent", attempt, flush=True)
        producer.commit_transaction(20)
        if attempt == 1:
            broker.restart()
"""


@pytest.fixture
def committed(ottla: Broker, ottla_topic: str, ottla_group: str) -> tuple[str, str]:
    """Return a topic and a group that has committed offset 5 in it."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": ottla.bootstrap, "group.id": ottla_group})
    producer = confluent_kafka.Producer({"bootstrap.servers": ottla.bootstrap})
    producer.produce(ottla_topic, b"v")
    assert producer.flush(20) == 0
    consumer.commit(offsets=[confluent_kafka.TopicPartition(ottla_topic, 0, 5)], asynchronous=False)
    consumer.close()
    return ottla_topic, ottla_group


async def test_aiokafka_reports_no_committed_offset_after_a_coordinator_move(ottla: Broker, committed: tuple[str, str]) -> None:
    topic, group = committed
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=ottla.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([partition])
        # The consumer also fetches its committed offset in the background, so the fault must not end with its first hit.
        with recipes.coordinator_moved_in_offset_fetch(ottla, group, times=None):
            assert await consumer.committed(partition) is None
        assert await consumer.committed(partition) == 5
    finally:
        await consumer.stop()


def test_librdkafka_raises_not_coordinator_once_after_a_coordinator_move(ottla: Broker, committed: tuple[str, str]) -> None:
    topic, group = committed
    consumer = confluent_kafka.Consumer({"bootstrap.servers": ottla.bootstrap, "group.id": group})
    asked = [confluent_kafka.TopicPartition(topic, 0)]
    try:
        with (
            recipes.coordinator_moved_in_offset_fetch(ottla, group),
            pytest.raises(confluent_kafka.KafkaException, match="NOT_COORDINATOR"),
        ):
            consumer.committed(asked, timeout=20)
        assert [partition.offset for partition in consumer.committed(asked, timeout=20)] == [5]
    finally:
        consumer.close()


def test_librdkafka_reads_nothing_after_a_coordinator_move_until_it_subscribes_again(
    ottla: Broker, ottla_topic: str, ottla_group: str
) -> None:
    ottla.produce(ottla_topic, ["v"])
    settings = {"bootstrap.servers": ottla.bootstrap, "group.id": ottla_group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        with recipes.coordinator_moved_in_offset_fetch(ottla, ottla_group) as moved:
            consumer.subscribe([ottla_topic])
            reported = consumer.poll(60)
            error = None if reported is None else reported.error()
            assert error is not None and error.name() == "NOT_COORDINATOR"
            assert moved.hits == 1
        assert consumer.poll(READS_NOTHING_S) is None
        consumer.unsubscribe()
        consumer.subscribe([ottla_topic])
        read = consumer.poll(60)
        assert read is not None and read.value() == b"v"
    finally:
        consumer.close()


def test_kafka_python_sends_requests_to_the_new_coordinator_after_a_move(ottla: Broker, committed: tuple[str, str]) -> None:
    topic, group = committed
    consumer = KafkaConsumer(bootstrap_servers=ottla.bootstrap, group_id=group, enable_auto_commit=False)
    try:
        with recipes.coordinator_moved_in_offset_fetch(ottla, group) as moved:
            assert consumer.committed(KafkaPythonPartition(topic, 0)) == 5
            assert moved.hits == 1
    finally:
        consumer.close()


def commit_with_a_lost_response(ottla: Broker, group: str, settings: dict[str, Any]) -> str:
    """Read a record and commit its offset while the connection breaks; return the error's name, or an empty string."""
    topic = f"topic-of-{group}"
    ottla.produce(topic, ["v"])
    group_settings = {"bootstrap.servers": ottla.bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**group_settings, "auto.offset.reset": "earliest", **settings})
    try:
        consumer.subscribe([topic])
        assert consumer.poll(60) is not None
        with recipes.offset_commit_lost(ottla, group):
            consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 1)], asynchronous=False)
    except confluent_kafka.KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()
    return ""


def test_librdkafka_loses_its_group_session_while_it_repeats_an_offset_commit(ottla: Broker, ottla_group: str) -> None:
    """A commit may succeed by chance, so the test tries three times."""
    errors = [commit_with_a_lost_response(ottla, f"{ottla_group}-{number}", {"session.timeout.ms": 6_000}) for number in range(3)]
    assert "UNKNOWN_MEMBER_ID" in errors


def test_librdkafka_offset_commit_succeeds_with_a_retry_backoff_longer_than_the_fetch_wait(ottla: Broker, ottla_group: str) -> None:
    assert commit_with_a_lost_response(ottla, ottla_group, {"retry.backoff.ms": 1_000}) == ""


@pytest.mark.skipif(confluent_kafka.libversion()[0] < "2.16", reason="librdkafka before 2.16.0 returns")
def test_librdkafka_send_offsets_to_transaction_does_not_return_after_a_broker_restart() -> None:
    process = subprocess.Popen([sys.executable, "-c", SEND_OFFSETS_AFTER_A_RESTART], stdout=subprocess.PIPE, text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(RETURNS_WITHIN_S)
    finally:
        process.kill()
        output, _ = process.communicate()
    assert output.split("\n")[:3] == ["sending 1", "sent 1", "sending 2"]


async def test_aiokafka_commits_a_transaction_without_the_refused_record(ottla: Broker, ottla_topic: str) -> None:
    """Other clients raise an error: see `tests/wire/test_failed_records.py`."""
    async with AIOKafkaProducer(bootstrap_servers=ottla.bootstrap, transactional_id=ottla_topic) as producer:
        await producer.begin_transaction()
        with ottla.faults.add(api="Produce", topic=ottla_topic, error="INVALID_TXN_STATE"):
            refused = await producer.send(ottla_topic, b"refused", partition=0)
            await producer.flush()
        await producer.commit_transaction()
        with pytest.raises(InvalidTxnState):
            await refused
    assert ottla.records(ottla_topic) == []


def test_librdkafka_duplicates_an_idempotent_record_after_another_record_timed_out(ottla: Broker, ottla_topic: str) -> None:
    """librdkafka begins a new producer epoch for all partitions when a record times out that may have been written.

    A record of another partition whose acknowledgement was lost is then sent again with the new epoch, and the broker cannot
    recognise it as a duplicate.
    """
    late = f"{ottla_topic}-late"
    ottla.create_topic(late)
    settings = {"bootstrap.servers": ottla.bootstrap, "enable.idempotence": True, "message.timeout.ms": int(DELIVERY_S * 1000)}
    producer = confluent_kafka.Producer({**settings, "linger.ms": 0})
    timed_out: list[confluent_kafka.KafkaError] = []
    acknowledged: list[confluent_kafka.KafkaError | None] = []
    with ottla.faults.add(api="Produce", topic=late, cut="before", times=None):
        producer.produce(late, b"late", on_delivery=lambda error, _: timed_out.append(error))
        half_s = time.monotonic() + DELIVERY_S / 2
        while time.monotonic() < half_s:
            producer.poll(0.1)
        with ottla.faults.add(api="Produce", topic=ottla_topic, cut="after", times=None) as lost:
            producer.produce(ottla_topic, b"paid", on_delivery=lambda error, _: acknowledged.append(error))
            end_s = time.monotonic() + 60
            while not timed_out and time.monotonic() < end_s:
                producer.poll(0.1)
            assert lost.hits
    assert producer.flush(20) == 0
    assert [error.code() for error in timed_out] == [confluent_kafka.KafkaError._MSG_TIMED_OUT]
    assert acknowledged == [None]
    assert [(record.value, record.producer_epoch) for record in ottla.records(ottla_topic)] == [(b"paid", 0), (b"paid", 1)]
