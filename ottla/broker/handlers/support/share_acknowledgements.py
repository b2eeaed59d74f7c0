"""Handles acknowledgements of acquired records in ShareFetch and ShareAcknowledge (KafkaApis.handleAcknowledgements)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.coordinators.share_partitions import SharePartitions
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.share_state.partition import Acknowledgement
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.sessions import SessionKey
from ottla.coordinator.share_state.states import AcknowledgeType
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

RENEWAL_FROM = 2
"""The first version of ShareFetch and of ShareAcknowledge in which a member may renew locks (KIP-1222)."""
ACKNOWLEDGE_WORK = 200
"""Estimated time to handle a partition's acknowledgements, excluding their batches, in units of 2 us."""

ITEM_WORK = 4
"""Estimated time to handle a partition without acknowledgements, in units of 2 us."""
MAX_TYPES = 10_000
"""Maximum number of acknowledge types for a partition in a request: the maximum of
``group.share.max.partition.max.record.locks``."""

Outcomes = dict[tuple[bytes, int], KafkaError | None]
"""The error of the acknowledgements by topic id and partition; None for success."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    share_partitions: SharePartitions


class AcknowledgementBatch(Protocol):
    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> list[int]: ...


class AskedPartition(Protocol):
    @property
    def partition_index(self) -> int: ...

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class AskedTopic(Protocol):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[AskedPartition]: ...


async def acknowledge_all(
    ports: Ports, session: SessionKey, topics: Iterable[AskedTopic], context: RequestContext, *, is_renewal: bool
) -> Outcomes:
    """Handle the acknowledgements of all partitions. If one batch is refused, all batches of its partition are refused.

    As in Kafka, partitions without batches are in the result only if another partition has valid batches.
    """
    pace, (group_id, member_id) = Pace(double_first=True), session
    asked = {(topic.topic_id, p.partition_index): p.acknowledgement_batches for topic in topics for p in topic.partitions}
    outcomes: Outcomes = {}
    untouched: list[tuple[bytes, int]] = []
    is_any = False
    for where, batches in asked.items():
        if pace.spend(ITEM_WORK):
            await next_turn()
        topic_id, partition = where
        topic = ports.cluster.state.topics_by_id.get(topic_id)
        is_there = topic is not None and 0 <= partition < topic.partition_count
        if topic is None:
            outcomes[where] = KafkaError(Code.UNKNOWN_TOPIC_ID)
        elif not _are_sound(batches, context.version, is_renewal=is_renewal):
            outcomes[where] = KafkaError(Code.INVALID_REQUEST)
        elif not ports.authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, topic.name):
            outcomes[where] = KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        elif not is_there:
            outcomes[where] = KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION)
        elif not batches:
            untouched.append(where)
        else:
            is_any = True
            if pace.spend(ACKNOWLEDGE_WORK + id_work(group_id) + sum(len(batch.acknowledge_types) for batch in batches)):
                await next_turn()
            said = [Acknowledgement(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches]
            try:
                ports.share_partitions.acknowledge(ShareKey(group_id, topic_id, partition), member_id, said)
                outcomes[where] = None
            except KafkaError as error:
                outcomes[where] = error
    if is_any:
        outcomes.update(dict.fromkeys(untouched))
    return outcomes


def _are_sound(batches: Sequence[AcknowledgementBatch], version: int, *, is_renewal: bool) -> bool:
    """Whether batches are in ascending order, each with one acknowledge type for all its offsets, or one for each offset
    (KafkaApis.validateAcknowledgementBatches)."""
    if sum(len(batch.acknowledge_types) for batch in batches) > MAX_TYPES:
        return False
    last_type = AcknowledgeType.RENEW if version >= RENEWAL_FROM else AcknowledgeType.REJECT
    end_offset = -1
    for batch in batches:
        types, length = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if length < 1 or batch.first_offset < end_offset or not types or len(types) not in (1, length):
            return False
        if min(types) < 0 or max(types) > last_type or (AcknowledgeType.RENEW in types and not is_renewal):
            return False
        end_offset = batch.last_offset
    return True


def code_and_message(outcome: KafkaError | None) -> tuple[int, str | None]:
    return (0, None) if outcome is None else (outcome.code, outcome.message)


def by_topic(outcomes: Mapping[tuple[bytes, int], KafkaError | None]) -> dict[bytes, dict[int, KafkaError | None]]:
    topics: dict[bytes, dict[int, KafkaError | None]] = {}
    for (topic_id, partition), outcome in outcomes.items():
        topics.setdefault(topic_id, {})[partition] = outcome
    return topics
