"""Questions about transactions and the offsets in them, for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.primitives import NO_UUID
from tests.scenarios.setting import NO_SUCH_ID, NO_SUCH_PRODUCER, Questions, Setting


def transactions(setting: Setting, version: int) -> Questions:
    """EndTxn at its versions, and AddOffsetsToTxn and TxnOffsetCommit at theirs as far as they go."""
    name = setting.name(f"t{version}")
    producer_id, epoch = setting.init(name)
    identities = {
        "an empty id": ("", producer_id, epoch),
        "no such id": (setting.name("nobody"), producer_id, epoch),
        "another producer": (name, NO_SUCH_PRODUCER, epoch),
        "an epoch to come": (name, producer_id, epoch + 1),
    }
    for label, identity in identities.items():
        transactional_id, producer, at_epoch = identity
        yield (
            f"commit for {label}",
            EndTxnRequest(transactional_id=transactional_id, producer_id=producer, producer_epoch=at_epoch, committed=True),
        )
        yield (
            f"offsets for {label}",
            AddOffsetsToTxnRequest(
                transactional_id=transactional_id, producer_id=producer, producer_epoch=at_epoch, group_id=setting.name("group")
            ),
        )
    yield (
        "offsets",
        AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=setting.name("group")
        ),
    )
    topic = TxnOffsetCommitRequestTopic(
        name=setting.name("one"),
        partitions=[
            TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata="m"
            )
        ],
    )
    for label, identity in identities.items():
        if label != "an empty id":
            transactional_id, producer, at_epoch = identity
            request = TxnOffsetCommitRequest(
                transactional_id=transactional_id,
                group_id=setting.name("group"),
                producer_id=producer,
                producer_epoch=at_epoch,
                topics=[topic],
            )
            yield f"commit of offsets for {label}", request
    topics = [
        TxnOffsetCommitRequestTopic(
            name=setting.name(stem),
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=i, committed_offset=5, committed_leader_epoch=-1, committed_metadata="m"
                )
                for i in indexes
            ],
        )
        for stem, indexes in (("one", (0,)), ("two", (1, 9)), ("none", (0,)), ("full", ()))
    ]
    yield (
        "topics that are there or not",
        TxnOffsetCommitRequest(
            transactional_id=name, group_id=setting.name("group"), producer_id=producer_id, producer_epoch=epoch, topics=topics
        ),
    )
    yield (
        "no group",
        TxnOffsetCommitRequest(transactional_id=name, group_id="", producer_id=producer_id, producer_epoch=epoch, topics=[topic]),
    )
    yield "describe", DescribeTransactionsRequest([name, setting.name("nobody"), ""])
    yield "commit", EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=True)


def transactional_offsets(setting: Setting, version: int) -> Questions:
    name = setting.name(f"offsets-{version}")
    producer_id, epoch = setting.init(name)
    setting.call(
        AddOffsetsToTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, group_id=name),
        3,
    )

    def ask(*topics: tuple[str, tuple[int, ...]], group: str = name, generation: int = -1) -> TxnOffsetCommitRequest:
        by_id = version >= 6
        wanted = [
            TxnOffsetCommitRequestTopic(
                name="" if by_id else setting.name(stem),
                topic_id=setting.ids.get(setting.name(stem), NO_SUCH_ID) if by_id and stem else NO_UUID,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="m")
                    for index in indexes
                ],
            )
            for stem, indexes in topics
        ]
        return TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=generation,
            topics=wanted,
        )

    if version >= 3:
        yield "a generation of no such group", ask(("one", (0,)), generation=1)
    yield "a topic", ask(("one", (0,)))
    yield "no such topic", ask(("none", (0,)))
    yield "no such topic, no partitions", ask(("none", ()))
    yield "neither name nor id", ask(("", (0,)))
    yield "no partitions", ask(("one", ()))
    yield "no topics", ask()
    yield "topics that are there or not", ask(("one", (0,)), ("two", (1, 9)), ("none", (0, 1)), ("full", ()), ("none", (2,)))
    yield "no group", ask(("one", (0,)), ("none", (0,)), group="")
    if version >= 3:
        yield "a generation of a group without members", ask(("one", (0,)), generation=1)


TRANSACTION_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "EndTxn": transactions,
    "TxnOffsetCommit": transactional_offsets,
}
