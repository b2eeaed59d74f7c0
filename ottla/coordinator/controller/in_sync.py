"""Changes of the in-sync replicas that a leader requests (AlterPartition; ReplicationControlManager.alterPartition of Kafka)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ottla.coordinator.controller import elections
from ottla.coordinator.controller.policies import check_broker_epoch
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import (
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionRegistration,
    merged,
)
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError

UNKNOWN_EPOCH = -1
"""Broker epoch in a request of a leader that does not know the replica's broker epoch. It is not checked."""


class PartitionAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The requested change of one partition. ``isr``: ids and epochs of the in-sync brokers (KIP-903)."""

    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    leader_recovery_state: int = RECOVERED


PartitionAnswer = PartitionRegistration | KafkaError
"""The partition after the change, or an error."""


def alter_partitions(
    state: ClusterState, broker_id: int, broker_epoch: int, asked: Iterable[PartitionAsked]
) -> Result[list[PartitionAnswer]]:
    """Change the in-sync replicas. The results are in the order of the request. Raises STALE_BROKER_EPOCH for the whole request."""
    check_broker_epoch(state, broker_id, broker_epoch)
    records: list[LogRecord] = []
    answers: list[PartitionAnswer] = []
    seen: set[tuple[bytes, int]] = set()
    for one in asked:
        try:
            if (one.topic_id, one.index) in seen:
                # The request lists the partition twice. The first entry's record raises the partition epoch, so the second entry is
                # stale.
                raise KafkaError(Code.INVALID_UPDATE_VERSION)
            answer, record = _altered(state, broker_id, one)
        except KafkaError as error:
            answers.append(error)
            continue
        seen.add((one.topic_id, one.index))
        if record is not None:
            records.append(record)
        answers.append(answer)
    return Result(answers, records)


def _altered(state: ClusterState, broker_id: int, asked: PartitionAsked) -> tuple[PartitionAnswer, LogRecord | None]:
    topic = state.topics_by_id.get(asked.topic_id)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_ID)
    if not 0 <= asked.index < topic.partition_count:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
    before = topic.partitions[asked.index]
    _check(state, broker_id, before, asked)
    change = _change(state, topic, asked).build()
    if change is None:
        return before, None
    record = elections.change_record(state, change)
    if change.leader not in (broker_id, NO_LEADER_CHANGE):
        # If the change ends a reassignment and elects another leader, respond that the sender no longer leads.
        return KafkaError(Code.NEW_LEADER_ELECTED), record
    return merged(before, change), record


def _change(state: ClusterState, topic: Topic, asked: PartitionAsked) -> elections.PartitionChange:
    return elections.change_of(
        state,
        topic,
        asked.index,
        isr=tuple(broker for broker, _ in asked.isr),
        recovery_state=asked.leader_recovery_state,
        election=elections.usual_election(state, topic),
    )


def _check(state: ClusterState, broker_id: int, before: PartitionRegistration, asked: PartitionAsked) -> None:
    """Raise the error of a change that the leader may not make. If the leader knows a higher epoch, a newer controller exists:
    NOT_CONTROLLER makes the leader look for it."""
    isr = [broker for broker, _ in asked.isr]
    recovery = asked.leader_recovery_state
    if asked.leader_epoch > before.leader_epoch or asked.partition_epoch > before.partition_epoch:
        raise KafkaError(Code.NOT_CONTROLLER)
    if asked.leader_epoch < before.leader_epoch:
        raise KafkaError(Code.FENCED_LEADER_EPOCH)
    if broker_id != before.leader:
        raise KafkaError(Code.INVALID_REQUEST, f"broker {broker_id} is not the leader; the leader is {before.leader}")
    if asked.partition_epoch < before.partition_epoch:
        raise KafkaError(Code.INVALID_UPDATE_VERSION)
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(before.replicas) or before.leader not in isr:
        raise KafkaError(Code.INVALID_REQUEST, "invalid in-sync set: it must contain the leader, and only replicas, each once")
    if recovery not in (RECOVERED, RECOVERING):
        raise KafkaError(Code.INVALID_REQUEST, f"unknown leader recovery state {recovery}")
    if recovery == RECOVERING and (len(isr) > 1 or before.leader_recovery_state == RECOVERED):
        raise KafkaError(
            Code.INVALID_REQUEST,
            "invalid leader recovery state: RECOVERING needs a sole in-sync replica and a partition that is RECOVERING already",
        )
    for broker, epoch in asked.isr:
        registration = state.registrations.brokers.get(broker)
        if registration is None or not registration.is_active or epoch not in (UNKNOWN_EPOCH, registration.broker_epoch):
            raise KafkaError(Code.INELIGIBLE_REPLICA)
