"""Each recipe of `ottla.testing.recipes` with a stock client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import MessageSizeTooLargeError, TopicAuthorizationFailedError

from ottla import Broker, recipes

pytestmark = pytest.mark.full
TIMEOUT_S = 40


@pytest.fixture
def producer(ottla: Broker) -> Iterator[Callable[..., Producer]]:
    """Return a function that creates producers of librdkafka."""
    made: list[Producer] = []

    def make(**settings: Any) -> Producer:
        config = {"bootstrap.servers": ottla.bootstrap, **{name.replace("_", "."): value for name, value in settings.items()}}
        made.append(Producer(config))
        if "transactional_id" in settings:
            made[-1].init_transactions(TIMEOUT_S)
        return made[-1]

    yield make
    for one in made:
        # A fenced producer raises its error again when it is flushed.
        with suppress(KafkaException):
            one.purge()
            one.flush(1)


def delivered(producer: Producer, topic: str, value: str) -> KafkaError | None:
    """Produce a record, and return the error of its delivery."""
    errors: list[KafkaError | None] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    return errors[0]


def consumer(broker: Broker, group: str, topic: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            # A shorter delay than the wait of a Fetch may let commit() fail when the coordinator moves (docs/client-faults.md).
            "retry.backoff.ms": 1_000,
        }
    )
    made.subscribe([topic])
    return made


def polled(made: Consumer) -> bytes:
    message = made.poll(TIMEOUT_S)
    assert message is not None and message.error() is None, message and message.error()
    return bytes(message.value() or b"")


def test_recipe_lost_produce_response_retry_writes_no_duplicate(
    ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]
) -> None:
    with recipes.produce_response_lost(ottla, ottla_topic) as lost:
        assert delivered(producer(enable_idempotence=True), ottla_topic, "paid") is None
        assert lost.hits == 1
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_lost_produce_request_is_sent_again(ottla: Broker, ottla_topic: str) -> None:
    with recipes.produce_request_lost(ottla, ottla_topic) as lost:
        made = KafkaProducer(bootstrap_servers=ottla.bootstrap)
        made.send(ottla_topic, b"paid").get(TIMEOUT_S)
        made.close()
        assert lost.hits == 1
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_full_disk_fails_the_delivery_of_a_record(
    ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]
) -> None:
    made = producer(delivery_timeout_ms=2_000, request_timeout_ms=1_000, linger_ms=0)
    with recipes.full_disk(ottla, ottla_topic) as full:
        assert delivered(made, ottla_topic, "lost") is not None
        assert full.hits > 0
    assert delivered(made, ottla_topic, "paid") is None
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_record_too_large_is_not_retried_by_the_producer(ottla: Broker, ottla_topic: str) -> None:
    made = KafkaProducer(bootstrap_servers=ottla.bootstrap)
    with recipes.record_too_large(ottla, ottla_topic), pytest.raises(MessageSizeTooLargeError):
        made.send(ottla_topic, b"large").get(TIMEOUT_S)
    made.close()
    ottla.expect(ottla_topic, [])


async def test_recipe_not_enough_replicas_makes_the_producer_wait(ottla: Broker, ottla_topic: str) -> None:
    with recipes.too_few_replicas(ottla, ottla_topic) as few:
        async with AIOKafkaProducer(bootstrap_servers=ottla.bootstrap, acks="all", enable_idempotence=True) as made:
            await made.send_and_wait(ottla_topic, b"paid")
        assert few.hits == 3
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_leader_change_is_followed_by_the_producer(
    ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]
) -> None:
    with recipes.leader_change(ottla, ottla_topic) as moved:
        assert delivered(producer(), ottla_topic, "paid") is None
        assert moved.hits == 2
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_forbidden_topic_is_reported_to_the_producer(ottla: Broker, ottla_topic: str) -> None:
    made = KafkaProducer(bootstrap_servers=ottla.bootstrap)
    with recipes.topic_forbidden(ottla, ottla_topic), pytest.raises(TopicAuthorizationFailedError):
        made.send(ottla_topic, b"secret").get(TIMEOUT_S)
    made.close()


def test_recipe_lost_commit_response_retry_commits_once(ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]) -> None:
    made = producer(transactional_id=ottla_topic)
    made.begin_transaction()
    made.produce(ottla_topic, "paid")
    with recipes.commit_response_lost(ottla, ottla_topic) as lost:
        made.commit_transaction(TIMEOUT_S)
        assert lost.hits == 1
    ottla.expect(ottla_topic, ["paid"])


async def test_recipe_refused_commit_is_repeated_by_the_producer(ottla: Broker, ottla_topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=ottla.bootstrap, transactional_id=ottla_topic) as made:
        with recipes.commit_refused(ottla, ottla_topic) as refused:
            async with made.transaction():
                await made.send(ottla_topic, b"paid")
            assert refused.hits == 2
    ottla.expect(ottla_topic, ["paid"])


@pytest.mark.ottla(settings={"num.partitions": 2})
def test_recipe_transaction_decided_before_a_crash_is_completed(
    ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]
) -> None:
    made = producer(transactional_id=ottla_topic)
    made.begin_transaction()
    made.produce(ottla_topic, "paid")
    made.flush(TIMEOUT_S)
    recipes.crash_after_decision(ottla, ottla_topic)
    with ThreadPoolExecutor(1) as beside:
        commit = beside.submit(made.commit_transaction, TIMEOUT_S)
        ottla.wait_for(lambda: not ottla.is_running, TIMEOUT_S)
        ottla.restart(kill=True)
        commit.result(TIMEOUT_S)
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_delayed_transaction_markers_hide_the_records(
    ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]
) -> None:
    made = producer(transactional_id=ottla_topic)
    made.begin_transaction()
    made.produce(ottla_topic, "paid")
    with recipes.markers_delayed(ottla, ottla_topic) as delayed:
        made.commit_transaction(TIMEOUT_S)
        assert delayed.hits == 1
        ottla.expect(ottla_topic, [])
    ottla.expect(ottla_topic, ["paid"])


def test_recipe_zombie_producer_is_fenced(ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]) -> None:
    made = producer(transactional_id=ottla_topic)
    made.begin_transaction()
    made.produce(ottla_topic, "paid twice")
    made.flush(TIMEOUT_S)
    recipes.zombie(ottla, ottla_topic)
    with pytest.raises(KafkaException) as fenced:
        made.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()
    ottla.expect(ottla_topic, [])


@pytest.mark.ottla(clock="manual")
async def test_recipe_transaction_timeout_fails_the_commit(ottla: Broker, ottla_topic: str) -> None:
    made = AIOKafkaProducer(bootstrap_servers=ottla.bootstrap, transactional_id=ottla_topic, transaction_timeout_ms=60_000)
    await made.start()
    await made.begin_transaction()
    await made.send_and_wait(ottla_topic, b"too late")
    recipes.transaction_timeout(ottla)
    await ottla.aio.wait_for(lambda: ottla.describe_transaction(ottla_topic).state == "CompleteAbort")
    with pytest.raises(AiokafkaError):
        await made.commit_transaction()
    await made.stop()
    ottla.expect(ottla_topic, [])


def test_recipe_rebalance_makes_the_consumer_join_again(ottla: Broker, ottla_topic: str, ottla_group: str) -> None:
    ottla.produce(ottla_topic, ["first", "second"])
    made = consumer(ottla, ottla_group, ottla_topic)
    try:
        assert polled(made) == b"first"
        joins = ottla.faults.observe(api="JoinGroup", group=ottla_group)
        with recipes.rebalance(ottla, ottla_group) as rebalance:
            rebalance.wait(timeout_s=TIMEOUT_S)
            # No offset was committed, so the consumer reads the batch again after the rebalance.
            assert polled(made) in (b"first", b"second")
            made.poll(0)
            joins.wait(timeout_s=TIMEOUT_S)
    finally:
        made.close()


@pytest.mark.parametrize("recipe", [recipes.session_expired, recipes.group_coordinator_moved, recipes.offset_commit_lost])
def test_recipe_offset_commit_error_is_raised_or_the_commit_repeated(
    ottla: Broker, ottla_topic: str, ottla_group: str, recipe: Any
) -> None:
    ottla.produce(ottla_topic, ["first"])
    made = consumer(ottla, ottla_group, ottla_topic)
    try:
        assert polled(made) == b"first"
        with recipe(ottla, ottla_group) as fault:
            try:
                made.commit(offsets=[TopicPartition(ottla_topic, 0, 1)], asynchronous=False)
            except KafkaException as error:
                assert recipe is not recipes.offset_commit_lost
                assert error.args[0].name() in ("UNKNOWN_MEMBER_ID", "NOT_COORDINATOR")
            fault.wait(timeout_s=TIMEOUT_S)
        if recipe is recipes.offset_commit_lost:
            assert ottla.lag(ottla_group) == {(ottla_topic, 0): 0}
    finally:
        made.close()


def test_recipe_coordinator_move_keeps_the_committed_offset(ottla: Broker, ottla_topic: str, ottla_group: str) -> None:
    """Other clients behave differently: see `tests/wire/test_client_faults.py`."""
    ottla.produce(ottla_topic, ["first", "second"])
    committed = consumer(ottla, ottla_group, ottla_topic)
    committed.commit(offsets=[TopicPartition(ottla_topic, 0, 1)], asynchronous=False)
    committed.close()
    with recipes.coordinator_moved_in_offset_fetch(ottla, ottla_group) as moved:
        made = KafkaConsumer(
            ottla_topic,
            bootstrap_servers=ottla.bootstrap,
            group_id=ottla_group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=TIMEOUT_S * 1_000,
        )
        try:
            assert next(made).value == b"second"
            assert moved.hits == 1
        finally:
            made.close()


def test_recipe_poison_record_is_read_unchanged(ottla: Broker, ottla_topic: str, ottla_group: str) -> None:
    recipes.poison_record(ottla, ottla_topic)
    ottla.produce(ottla_topic, {"id": 1})
    made = consumer(ottla, ottla_group, ottla_topic)
    try:
        with pytest.raises(ValueError):
            json.loads(polled(made))
        assert json.loads(polled(made)) == {"id": 1}
    finally:
        made.close()


def test_recipe_lost_fetch_connection_loses_no_record(ottla: Broker, ottla_topic: str, ottla_group: str) -> None:
    with recipes.fetch_connection_lost(ottla, ottla_topic) as lost:
        made = consumer(ottla, ottla_group, ottla_topic)
        try:
            lost_before = ottla.produce(ottla_topic, ["first"])
            assert polled(made) == b"first" and lost_before[0].offset == 0
            assert lost.hits == 1
        finally:
            made.close()


def test_recipe_slow_broker_causes_no_client_error(ottla: Broker, ottla_topic: str, producer: Callable[..., Producer]) -> None:
    with recipes.slow_broker(ottla, 300, api="Produce") as slow:
        assert delivered(producer(), ottla_topic, "paid") is None
        assert slow.hits == 1
    ottla.expect(ottla_topic, ["paid"])


def test_every_failure_recipe_is_tested_and_documented() -> None:
    names = {name for name, value in vars(recipes).items() if callable(value) and value.__module__ == recipes.__name__}
    names = {name for name in names if not name.startswith("_")}
    assert len(names) == 21
    assert {name for name in names if f"recipes.{name}" not in Path(__file__).read_text()} == set()
    page = (Path(__file__).parent.parent.parent / "docs" / "recipes.md").read_text()
    assert set(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)) == names
