"""A broker with much data for the console's pages: 1,000 partitions, 200 groups and 50 open transactions."""

from __future__ import annotations

from confluent_kafka import Producer

from ottla import Broker
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support import oracle
from tests.support.raw_client import RawClient

TOPICS = ("orders", *(f"topic-{number}" for number in range(9)))
PARTITIONS_OF_EACH = 100
GROUPS = 200
OPEN_TRANSACTIONS = 50
RECORDS = 2_000
TIMEOUT_S = 60.0


def producer(broker: Broker, transactional_id: str) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
            "client.id": f"client of {transactional_id}",
            "log_level": 0,
        }
    )
    made.init_transactions(TIMEOUT_S)
    return made


def write(to: Producer, value: bytes, partition: int = 0) -> None:
    to.begin_transaction()
    to.produce("orders", value, key=b"key", partition=partition)
    assert to.flush(TIMEOUT_S) == 0


def commit_offset(client: RawClient, group: str, offset: int) -> None:
    """Commit an offset like a consumer that assigns its own partitions."""
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in range(3)]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)])

    oracle.coordinator_known(client, group, oracle.GROUP)
    answer = oracle.ready(client, request, 8, lambda answer: [answer.topics[0].partitions[0].error_code])
    assert answer.topics[0].partitions[0].error_code == 0


def load(broker: Broker) -> list[Producer]:
    """Fill the broker. Returns the producers whose transactions are open."""
    with RawClient(broker.bootstrap) as client:
        topics = [CreatableTopic(name=name, num_partitions=PARTITIONS_OF_EACH, replication_factor=1) for name in TOPICS]
        client.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        plain = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for number in range(RECORDS):
            plain.produce("orders", b"record %d" % number, partition=number % PARTITIONS_OF_EACH)
        assert plain.flush(TIMEOUT_S) == 0
        for number in range(GROUPS):
            commit_offset(client, f"group-{number:03}", 1)
    ended = producer(broker, "ended")
    for number in range(40):
        write(ended, b"ended", partition=number % 7)
        if number % 4:
            ended.commit_transaction(TIMEOUT_S)
        else:
            ended.abort_transaction(TIMEOUT_S)
    opened = [producer(broker, f"open-{number:02}") for number in range(OPEN_TRANSACTIONS)]
    for number, one in enumerate(opened):
        write(one, b"open", partition=50 + number)
    return opened
