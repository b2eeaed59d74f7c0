"""Run a simulated broker for a day and print one digest of all its responses and files. test_hash_order.py runs this module.

The digest must depend only on the seed of the simulated world, and not on hash values of strings or addresses of objects.
"""

from __future__ import annotations

import hashlib
from typing import Any

import structlog

from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.simulation.broker import DATA_DIR, SimulatedBroker

TOPICS = ("orders", "payments", "returns", "stock", "shipments", "refunds")
IDS = ("till-1", "till-2", "web", "mail", "audit")
PARTITIONS = 4


def transactions(client: Any, heard: list[Any]) -> None:
    for number, transactional_id in enumerate(IDS):
        begun = client.call(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 4)
        who = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        joined = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=t, partitions=list(range(PARTITIONS))) for t in TOPICS],
        )
        heard.append(client.call(joined, 3))
        group_id = f"group-{number}"
        heard.append(client.call(AddOffsetsToTxnRequest(transactional_id=transactional_id, group_id=group_id, **who), 3))
        offsets = [
            TxnOffsetCommitRequestTopic(
                name=t,
                partitions=[TxnOffsetCommitRequestPartition(partition_index=i, committed_offset=i) for i in range(PARTITIONS)],
            )
            for t in TOPICS
        ]
        heard.append(
            client.call(TxnOffsetCommitRequest(transactional_id=transactional_id, group_id=group_id, topics=offsets, **who), 3)
        )
        heard.append(client.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0))
        if number:
            heard.append(client.call(EndTxnRequest(transactional_id=transactional_id, committed=number % 2 == 0, **who), 4))


def groups(broker: SimulatedBroker, heard: list[Any]) -> None:
    for group_id in ("readers", "writers"):
        members = []
        for number in range(5):
            protocols = [JoinGroupRequestProtocol(name=name, metadata=b"m") for name in ("range", "sticky", f"own-{number}")]
            join = JoinGroupRequest(
                group_id=group_id, session_timeout_ms=10_000, rebalance_timeout_ms=5_000, protocol_type="other", protocols=protocols
            )
            client = broker.connect(f"{group_id}-{number}")
            members.append((client, client.send(join, 3)))
        heard.extend(client.receive(sent) for client, sent in members)
        topics = [
            OffsetCommitRequestTopic(
                name=t, partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=7) for i in range(PARTITIONS)]
            )
            for t in TOPICS
        ]
        heard.append(members[0][0].call(OffsetCommitRequest(group_id=f"{group_id}-offsets", topics=topics), 7))


def day() -> str:
    structlog.configure(processors=[lambda logger, name, event: (_ for _ in ()).throw(structlog.DropEvent)])
    broker = SimulatedBroker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}).start()
    heard: list[Any] = []
    client = broker.connect()
    new = [CreatableTopic(name=t, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]) for t in TOPICS]
    heard.append(client.call(CreateTopicsRequest(topics=new)))
    for kind in (0, 1):
        heard.append(client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"])))
    transactions(client, heard)
    groups(broker, heard)
    heard.append(client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=t) for t in TOPICS[:3]])))
    # Let the members' sessions expire, and the timeout of the open transaction.
    broker.sleep(70_000)
    heard.append(client.call(DescribeGroupsRequest(groups=["readers", "writers", "group-2"])))
    heard.append(client.call(DeleteGroupsRequest(groups_names=["readers-offsets", "group-2", "group-3"])))
    heard.append(client.call(ListTransactionsRequest()))
    heard.append(client.call(ListGroupsRequest()))
    heard.append(client.call(MetadataRequest(topics=None)))
    broker.restart(kill=True)
    heard.append(broker.connect().call(ListGroupsRequest()))
    broker.stop()
    digest = hashlib.sha256()
    for answer in heard:
        digest.update(repr(answer).encode())
    written = 0
    for directory in [DATA_DIR, *(f"{DATA_DIR}/{name}" for name in broker.fs.list_dir(DATA_DIR))]:
        for name in broker.fs.list_dir(directory):
            data = broker.fs.read_file(f"{directory}/{name}")
            if data is not None:
                digest.update(f"{directory}/{name}".encode() + data)
                written += len(data)
    return f"{digest.hexdigest()} of {len(heard)} answers and {written} bytes, {broker.bugs} bugs"


if __name__ == "__main__":
    print(day())
