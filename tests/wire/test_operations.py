"""Requests that tests make with a `Broker` object, and fixtures with clients."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import ANY

import pytest

from ottla import Api, Broker, Cluster, Error, Record
from ottla.client import ClientError
from ottla.control.faults.api_names import FaultError
from ottla.protocol.messages import APIS

pytestmark = pytest.mark.full
SECURED = pytest.mark.ottla(security="SASL_SSL", users={"alice": "secret"}, acls=[])


def test_broker_expect_method_accepts_the_produced_records(ottla: Broker, ottla_topic: str) -> None:
    written = ottla.produce(
        ottla_topic, [{"id": 1}, {"id": 2}], key=lambda order: str(order["id"]), headers={"a": "b"}, timestamp=5
    )
    assert [(one.partition, one.offset) for one in written] == [(0, 0), (0, 1)]
    ottla.expect(ottla_topic, [{"id": 1}, Record({"id": 2}, key="2", headers={"a": "b"}, timestamp=5)])
    ottla.expect(ottla_topic, [{"id": ANY}, {"id": 1}], in_any_order=True)
    assert [one.value["id"] for one in ottla.consume(ottla_topic, 1, deserializer=json.loads) if one.value] == [1]
    assert [one.value for one in ottla.consume(ottla_topic, start=1)] == [b'{"id":2}']
    with pytest.raises(ValueError, match=r"of topic-.* at offset 0 cannot be deserialized"):
        ottla.consume(ottla_topic, 1, deserializer=int)


def test_broker_produce_method_creates_a_topic_if_auto_creation_is_enabled(ottla: Broker, ottla_group: str) -> None:
    ottla.produce(ottla_group, "paid")
    ottla.expect(ottla_group, "paid")


@pytest.mark.ottla(settings={"auto.create.topics.enable": False})
def test_broker_produce_method_raises_for_an_unknown_topic_without_auto_creation(ottla: Broker, ottla_group: str) -> None:
    with pytest.raises(ClientError, match="unknown topic"):
        ottla.produce(ottla_group, "paid")
    with pytest.raises(AssertionError, match="but it does not exist"):
        ottla.expect(ottla_group, [])


@pytest.mark.parametrize(
    "version", [pytest.param(level, marks=pytest.mark.ottla(features={"transaction.version": level})) for level in (1, 2)]
)
def test_broker_transaction_block_commits_or_aborts(ottla: Broker, ottla_topic: str, ottla_group: str, version: int) -> None:
    with ottla.transaction("shop") as transaction:
        transaction.produce(ottla_topic, ["a", "b"])
        transaction.produce(ottla_topic, "c")
        transaction.commit_offsets(ottla_group, {(ottla_topic, 0): 2})
        with pytest.raises(TimeoutError, match=r"has 0 of 1 records after 0\.1 s \(not committed: 3 after an open transaction"):
            ottla.consume(ottla_topic, 1, timeout_s=0.1)
    with pytest.raises(ZeroDivisionError), ottla.transaction("shop") as transaction:
        transaction.produce(ottla_topic, "d")
        _ = 1 / 0
    with ottla.transaction("shop") as transaction:
        transaction.produce(ottla_topic, "e")
        transaction.abort()
    with pytest.raises(RuntimeError, match="has ended"):
        transaction.produce(ottla_topic, "f")
    ottla.expect(ottla_topic, ["a", "b", "c"])
    with pytest.raises(AssertionError, match=r"not committed: 2 aborted"):
        ottla.expect(ottla_topic, ["a", "b"])
    assert ottla.lag(ottla_group)[ottla_topic, 0] > 0


def test_fenced_transaction_block_of_broker_object_raises_the_error_from_inside_the_block(ottla: Broker, ottla_topic: str) -> None:
    with pytest.raises(ZeroDivisionError) as raised, ottla.transaction(ottla_topic) as transaction:
        transaction.produce(ottla_topic, "a")
        ottla.transaction(ottla_topic).begin()
        _ = 1 / 0
    assert "could not be aborted" in raised.value.__notes__[0]


def test_broker_transaction_block_without_records_ends_without_an_error(ottla: Broker) -> None:
    with ottla.transaction("empty") as transaction:
        assert transaction.is_open
    assert not transaction.is_open
    assert ottla.describe_transaction("empty").state == "Empty"


@pytest.mark.ottla(topic={"partitions": 3, "configs": {"cleanup.policy": "compact"}})
def test_broker_expect_method_refuses_an_order_across_several_partitions(ottla: Broker, ottla_topic: str) -> None:
    ottla.produce(ottla_topic, [*"abcdef"], key=lambda value: value)
    ottla.produce(ottla_topic, [Record("g", key="g", partition=2)])
    with pytest.raises(ValueError, match="has 3 partitions, whose records have no common order"):
        ottla.expect(ottla_topic, [*"abcdefg"])
    ottla.expect(ottla_topic, [*"gfedcba"], in_any_order=True)
    with pytest.raises(ClientError, match="unknown partition 3"):
        ottla.produce(ottla_topic, "h", partition=3)


def test_broker_object_changes_configs_groups_and_topics(ottla: Broker, ottla_topic: str, ottla_group: str) -> None:
    ottla.produce(ottla_topic, ["a"])
    ottla.alter_config(ottla_topic, {"retention.ms": 1_000, "preallocate": False})
    with ottla.open_client() as client:
        configs = {config.name: config for config in client.topic(ottla_topic).configs}
    assert (configs["retention.ms"].value, configs["preallocate"].value) == ("1000", "false")
    ottla.alter_config(ottla_topic, {"retention.ms": None})
    ottla.alter_config(configs={"log.cleaner.threads": 2})
    with pytest.raises(TypeError, match="expected configs such as"):
        ottla.alter_config(ottla_topic)  # type: ignore[call-overload]
    ottla.commit_offsets(ottla_group, {(ottla_topic, 0): 1})
    assert ottla.lag(ottla_group) == {(ottla_topic, 0): 0}
    ottla.delete_group(ottla_group)
    ottla.delete_topic(ottla_topic)
    with pytest.raises(ClientError):
        ottla.records(ottla_topic)


@SECURED
def test_broker_object_connects_to_a_secured_broker_as_super_user(ottla: Broker, ottla_topic: str, ottla_producer: Any) -> None:
    with ottla.transaction() as transaction:
        transaction.produce(ottla_topic, "a")
    ottla_producer.produce(ottla_topic, "b")
    assert ottla_producer.flush(20) == 0
    ottla.expect(ottla_topic, ["a", "b"])


@pytest.mark.ottla(clock="manual", topic={"configs": {"message.timestamp.type": "CreateTime"}})
def test_records_produced_by_broker_object_have_the_time_of_its_manual_clock(ottla: Broker, ottla_topic: str) -> None:
    ottla.clock.advance("30d")
    ottla.produce(ottla_topic, "a")
    (record,) = ottla.consume(ottla_topic, 1)
    assert record.timestamp_ms == ottla.clock.now_ms
    transaction = ottla.transaction(ottla_topic, timeout_s=60).begin()
    transaction.produce(ottla_topic, "b")
    ottla.clock.advance("61s")
    ottla.wait_for(lambda: ottla.describe_transaction(ottla_topic).state == "CompleteAbort")
    with pytest.raises(ClientError):
        transaction.commit()


def test_faults_do_not_hit_the_requests_of_a_broker_object(ottla: Broker, ottla_topic: str) -> None:
    with ottla.faults.error(api=Api.PRODUCE, code=Error.KAFKA_STORAGE_ERROR, times=None) as fault:
        ottla.produce(ottla_topic, "a")
        assert fault.hits == 0


def test_typed_faults_are_checked_before_they_are_sent(ottla: Broker, ottla_topic: str) -> None:
    with pytest.raises(FaultError, match="names no topic"):
        ottla.faults.error(api=Api.END_TXN, code=Error.NOT_COORDINATOR, topic=ottla_topic)
    with ottla.faults.error(api=Api.END_TXN, code=Error.COORDINATOR_NOT_AVAILABLE, times=2) as refused:
        assert refused.view()["fault"] == {"api": "EndTxn", "error": "COORDINATOR_NOT_AVAILABLE", "times": 2}
    for make in (
        lambda: ottla.faults.answer({"error_code": "NOT_COORDINATOR"}, api=Api.END_TXN),
        lambda: ottla.faults.cut("before", api=Api.PRODUCE),
        lambda: ottla.faults.drop_request(api=Api.PRODUCE),
        lambda: ottla.faults.drop_answer(api=Api.PRODUCE),
        lambda: ottla.faults.freeze(client_id="nobody"),
        lambda: ottla.faults.hold("between-markers", after_markers=2),
        lambda: ottla.faults.kill("after-prepare", transactional_id="nobody"),
        lambda: ottla.faults.refuse("before-prepare", code=Error.COORDINATOR_LOAD_IN_PROGRESS, transactional_id="nobody"),
        lambda: ottla.faults.delay(5, answer_ms=5, client_id="nobody"),
        lambda: ottla.faults.throttle(5, client_id="nobody"),
        lambda: ottla.faults.slow(5, client_id="nobody"),
        lambda: ottla.faults.observe(fields={"acks": 0}, api=Api.PRODUCE),
    ):
        with make() as fault:
            assert fault.hits == 0


def test_api_enumeration_of_faults_names_every_kafka_api() -> None:
    assert [str(one) for one in Api] == [entry.name for _, entry in sorted(APIS.items())]


def test_plugin_fixtures_give_producer_and_consumer_of_the_installed_library(
    ottla_producer: Any, ottla_consumer: Any, ottla_topic: str
) -> None:
    ottla_producer.produce(ottla_topic, b"paid")
    assert ottla_producer.flush(20) == 0
    assert ottla_consumer.poll(20).value() == b"paid"


@pytest.mark.ottla(client="kafka-python", producer={"transactional.id": "kafka-python"})
def test_plugin_fixtures_give_producer_and_consumer_of_kafka_python(
    ottla_producer: Any, ottla_consumer: Any, ottla_topic: str
) -> None:
    ottla_producer.begin_transaction()
    ottla_producer.send(ottla_topic, b"paid")
    ottla_producer.commit_transaction()
    assert next(ottla_consumer).value == b"paid"


async def test_coroutines_of_broker_object_do_not_block_the_event_loop(
    ottla: Broker, ottla_aio_producer: Any, ottla_aio_consumer: Any, ottla_topic: str
) -> None:
    waiting = asyncio.create_task(ottla.aio.expect(ottla_topic, ["a", "b"]))
    await ottla_aio_producer.send_and_wait(ottla_topic, b"a")
    async with ottla.aio.transaction() as transaction:
        await transaction.produce(ottla_topic, "b")
    await waiting
    assert (await ottla_aio_consumer.getone()).value == b"a"
    assert [one.value for one in await ottla.aio.consume(ottla_topic, 2, deserializer=str)] == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        async with ottla.aio.transaction() as transaction:
            await transaction.produce(ottla_topic, "c")
            _ = 1 / 0
    await ottla.aio.produce(ottla_topic, 5, serializer=lambda value: value.to_bytes(1))
    await ottla.aio.expect(ottla_topic, ["a", "b", b"\x05"])


@pytest.mark.ottla(topic={"partitions": 3, "replication_factor": 3})
def test_cluster_object_has_the_methods_of_a_broker_object(ottla_cluster: Cluster, ottla_topic: str, ottla_producer: Any) -> None:
    ottla_producer.produce(ottla_topic, b"x")
    assert ottla_producer.flush(20) == 0
    with ottla_cluster.transaction() as transaction:
        transaction.produce(ottla_topic, [*"abc"], key=lambda value: value)
    ottla_cluster.expect(ottla_topic, [*"abcx"], in_any_order=True)
    ottla_cluster.delete_topic(ottla_topic)
