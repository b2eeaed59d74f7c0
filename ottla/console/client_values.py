"""Converts results of `ottla.client` to the types of `ottla.broker.view`, which the console's pages show."""

from __future__ import annotations

from ottla.broker.view.groups import GroupDetail, GroupHold, GroupPosition
from ottla.broker.view.members import GroupMember
from ottla.broker.view.partitions import HeldPartition, OpenTransaction
from ottla.broker.view.topics import TopicListing
from ottla.broker.view.transactions import TransactionDescription
from ottla.client.admin import transactions
from ottla.client.explain.diagnosis import StableOffset, WaitingGroup
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.metadata import MetadataResponseTopic


def topic_listing(topic: MetadataResponseTopic) -> TopicListing:
    name = topic.name or ""
    return TopicListing(
        name=name,
        topic_id=topic.topic_id,
        partitions=len(topic.partitions),
        replicas=max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
        is_internal=topic.is_internal or name in INTERNAL_TOPICS,
    )


def transaction_description(known: transactions.TransactionDescription) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=known.transactional_id,
        state=known.state,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        timeout_ms=known.timeout_ms,
        start_ms=known.start_ms,
        partitions=known.partitions,
    )


def group_detail(waiting: WaitingGroup) -> GroupDetail:
    group = waiting.group
    return GroupDetail(
        group_id=group.group_id,
        type=group.group_type,
        state=group.state,
        epoch=group.epoch,
        assignor=group.assignor,
        members=[
            GroupMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.host,
                epoch=member.epoch,
                assignment=member.assignment,
                partitions=member.partitions,
            )
            for member in group.members
        ],
        positions=[
            GroupPosition(
                topic=position.topic,
                partition=position.partition,
                committed=position.committed,
                end=position.end,
                lag=position.lag,
                metadata=position.metadata,
                start=position.start,
            )
            for position in group.positions
        ],
        holds=[hold for held in waiting.held if (hold := _hold(held)) is not None],
    )


def _hold(held: StableOffset) -> GroupHold | None:
    if held.holder is None:
        return None
    return GroupHold(
        held=HeldPartition(
            topic=held.topic,
            partition=held.partition,
            last_stable_offset=held.last_stable_offset,
            high_watermark=held.high_watermark,
        ),
        holder=OpenTransaction(
            producer_id=held.holder.producer_id,
            producer_epoch=held.holder.producer_epoch,
            start_offset=held.holder.start_offset,
        ),
        transaction=None if held.transaction is None else transaction_description(held.transaction),
        may_be_elsewhere=held.may_be_hidden and held.transaction is None,
    )
