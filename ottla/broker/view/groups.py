"""The groups that this broker coordinates, their members, positions and lag, and the transactions that hold them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.view.coordinators import Listed, elsewhere, shard_of
from ottla.broker.view.members import GroupMember, membership
from ottla.broker.view.partitions import HeldPartition, OpenTransaction, exists, holder, log_state
from ottla.broker.view.transactions import TransactionDescription, of_producers
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.share_state.batches import NO_OFFSET
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from ottla.protocol.java_hash import id_work, partition_for
from ottla.protocol.steps import Pace, next_turn
from ottla.protocol.topic_partition import TopicPartition

GROUP_WORK = 5
"""Estimated time per group in a list, in units of 2 us."""
POSITION_WORK = 4
"""Estimated processor time per partition in which a group has a committed offset, in units of 2 us."""


class Ports(Protocol):
    cluster: ClusterCommands
    groups: Groups
    partitions: Partitions
    share_states: ShareStates
    transactions: Transactions


class GroupListing(msgspec.Struct, frozen=True, kw_only=True):
    group_id: str
    type: str
    state: str


class GroupPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A group's position in a partition. As in Kafka's tools, ``lag`` counts offsets up to the high watermark, including markers.

    Without a committed offset, ``committed`` and ``lag`` are None, and ``start`` is the log start offset, from which a member with
    ``auto.offset.reset=earliest`` reads. ``end`` and ``lag`` are None if this broker has no replica of the partition.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    metadata: str = ""
    start: int | None = None

    @property
    def unread(self) -> int:
        """The lag; without a committed offset, the number of offsets in the log; 0 if unknown."""
        if self.lag is not None:
            return self.lag
        return 0 if self.end is None or self.committed is not None else max(0, self.end - (self.start or 0))


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """The lag of a group: the sum of its known lags, the number of members' partitions without a committed offset, and the
    number of partitions whose end this broker does not know. ``partitions`` is the number of all partitions that were read."""

    group_id: str
    lag: int
    uncommitted: int
    unknown: int
    partitions: int = 0


class GroupHold(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in which the open transaction ``holder`` keeps a group from reading on.

    ``transaction`` is the transaction as its coordinator knows it; None if this broker coordinates no open transaction of the
    producer. Then the transaction is hanging, unless another broker coordinates it (``may_be_elsewhere``).
    """

    held: HeldPartition
    holder: OpenTransaction
    transaction: TransactionDescription | None
    may_be_elsewhere: bool


class GroupDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A group. ``holds`` has the input partitions in which the group has reached the last stable offset, and its partition of
    ``__consumer_offsets`` if a transaction, possibly of another group, has pending offsets there."""

    group_id: str
    type: str
    state: str
    epoch: int | None
    assignor: str
    members: list[GroupMember]
    positions: list[GroupPosition]
    holds: list[GroupHold]


async def groups(ports: Ports) -> Listed[GroupListing]:
    """List the groups of this broker, in no particular order. Raises COORDINATOR_LOAD_IN_PROGRESS."""
    if ports.groups.is_loading:
        raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS, "the group coordinator is loading groups")
    rows, pace = [], Pace()
    for shard in ports.groups.shards():
        for group_id in shard.group_ids():
            group = shard.view(group_id)
            if group is not None:
                rows.append(GroupListing(group_id=group_id, type=group.type_name, state=group.state_name))
            if pace.spend(GROUP_WORK):
                await next_turn()
    return Listed(rows=rows, missing=elsewhere(ports.cluster.state, OFFSETS_TOPIC, "groups"))


async def lags(ports: Ports, group_ids: Sequence[str]) -> list[GroupLag]:
    """Return the lag of some groups of this broker, in the order of ``group_ids``, without groups that no longer exist."""
    found, pace = list[GroupLag](), Pace()
    shards = {shard.partition: shard for shard in ports.groups.shards()}
    topic = ports.cluster.state.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return found
    for group_id in group_ids:
        shard = shards.get(partition_for(group_id, topic.partition_count))
        if shard is not None and shard.exists(group_id):
            members = (await membership(shard, group_id, ports.groups.topics)).members
            found.append(_lag(group_id, await _positions(ports, shard, group_id, members)))
        if pace.spend(id_work(group_id) + GROUP_WORK):
            await next_turn()
    return found


def _lag(group_id: str, positions: Iterable[GroupPosition]) -> GroupLag:
    lag = uncommitted = unknown = partitions = 0
    for position in positions:
        partitions += 1
        lag += position.lag or 0
        uncommitted += position.committed is None
        unknown += position.end is None
    return GroupLag(group_id=group_id, lag=lag, uncommitted=uncommitted, unknown=unknown, partitions=partitions)


async def group(ports: Ports, group_id: str) -> GroupDetail:
    """Return a group. Raises GROUP_ID_NOT_FOUND, and the errors of `shard_of`."""
    shard = shard_of(ports, OFFSETS_TOPIC, ports.groups.shards(), group_id, f"group {group_id!r}")
    known = None if shard is None else shard.view(group_id)
    if shard is None or known is None:
        raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"unknown group {group_id!r}; ottla group list shows the groups")
    kind, state = known.type_name, known.state_name
    joined = await membership(shard, group_id, ports.groups.topics)
    positions = await _positions(ports, shard, group_id, joined.members)
    return GroupDetail(
        group_id=group_id,
        type=kind,
        state=state,
        epoch=joined.epoch,
        assignor=joined.assignor,
        members=joined.members,
        positions=positions,
        holds=await _holds(ports, shard.partition, positions),
    )


class _Commit(NamedTuple):
    """A committed offset. ``lag`` is set only in share groups; other groups lag by the high watermark minus ``offset``."""

    offset: int
    metadata: str = ""
    lag: int | None = None


async def _positions(ports: Ports, shard: GroupShard, group_id: str, members: Iterable[GroupMember]) -> list[GroupPosition]:
    """Return, by topic and partition, a group's positions in the partitions with committed offsets and in its members' partitions.

    Partitions that do not exist are left out: committed offsets and assignments may outlive a deleted topic.
    """
    commits = await _commits(ports, shard, group_id)
    wanted = commits.keys() | {partition for member in members for partition in member.partitions}
    positions, pace = [], Pace()
    for topic, index in sorted(wanted):
        if exists(ports, topic, index):
            positions.append(_position(ports, topic, index, commits.get((topic, index))))
        if pace.spend(POSITION_WORK):
            await next_turn()
    return positions


def _position(ports: Ports, topic: str, index: int, commit: _Commit | None) -> GroupPosition:
    log = log_state(ports, topic, index)
    end = None if log is None else log.high_watermark
    if commit is None:
        start = None if log is None else log.log_start_offset
        return GroupPosition(topic=topic, partition=index, committed=None, end=end, lag=None, start=start)
    lag = commit.lag
    if lag is None and end is not None:
        lag = max(0, end - commit.offset)
    return GroupPosition(topic=topic, partition=index, committed=commit.offset, end=end, lag=lag, metadata=commit.metadata)


async def _commits(ports: Ports, shard: GroupShard, group_id: str) -> dict[TopicPartition, _Commit | None]:
    """Return a group's committed offsets; None for a share partition that is initialized and not read yet."""
    share = shard.shares.groups.get(group_id)
    if share is None:
        committed = shard.offsets.of_group(group_id)
        return {partition: _Commit(commit.offset, commit.metadata) for partition, commit in list(committed.items())}
    commits, pace = dict[TopicPartition, _Commit | None](), Pace()
    initialized = {} if share.states is None else share.states.initialized
    for topic_id, of_topic in initialized.items():
        name = ports.groups.topics.topic_name(topic_id)
        if name is None:
            continue
        for index in of_topic.partitions:
            commits[name, index] = _share_commit(ports, ShareKey(group_id, topic_id, index), name)
            if pace.spend(id_work(group_id)):
                await next_turn()
    return commits


def _share_commit(ports: Ports, key: ShareKey, topic: str) -> _Commit | None:
    """Return a share partition's start offset; its lag is the number of records that the group has not finished (KIP-1226)."""
    if SHARE_STATE_TOPIC not in ports.cluster.state.topics:
        return None
    index = ports.share_states.partition_of(key)
    shard = next((shard for shard in ports.share_states.shards() if shard.partition == index), None)
    persisted = None if shard is None else shard.persisted.get(key)
    if persisted is None or persisted.state.start_offset == NO_OFFSET:
        return None
    state, log = persisted.state, log_state(ports, topic, key.partition)
    lag = None
    if log is not None and state.delivery_complete_count != -1:
        lag = log.high_watermark - state.start_offset - state.delivery_complete_count
    return _Commit(state.start_offset, lag=lag)


async def _holds(ports: Ports, offsets_partition: int, positions: Iterable[GroupPosition]) -> list[GroupHold]:
    found = [holder(ports, OFFSETS_TOPIC, offsets_partition)]
    pace = Pace()
    for position in positions:
        if position.unread > 0:
            one = holder(ports, position.topic, position.partition)
            at = position.start if position.committed is None else position.committed
            if one is not None and at is not None and at >= one[0].last_stable_offset:
                found.append(one)
        if pace.spend(POSITION_WORK):
            await next_turn()
    holding = [one for one in found if one is not None]
    known = await of_producers(ports, {transaction.producer_id for _, transaction in holding})
    is_alone, holds = ports.cluster.state.is_alone, list[GroupHold]()
    for held, opened in holding:
        transaction = known.get(opened.producer_id)
        elsewhere_too = transaction is None and not is_alone
        holds.append(GroupHold(held=held, holder=opened, transaction=transaction, may_be_elsewhere=elsewhere_too))
    return holds
