"""Checks the whole state of a coordinator after each command in tests."""

from __future__ import annotations

from collections.abc import Container
from itertools import combinations

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.consumer.group import ConsumerGroup, held_partitions
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import AT_REST
from ottla.invariants import MAX_ELEMENTS


def check_transactions(shard: TransactionShard) -> None:
    """Check that the unfinished ids are exactly the ids in Ongoing or Prepare, and that no removed id has a last epoch."""
    if len(shard.ids) > MAX_ELEMENTS:
        return
    unfinished = {i: m for i, m in shard.ids.items() if m.state not in AT_REST}
    assert unfinished == shard._unfinished, f"unfinished ids are {sorted(unfinished)}, _unfinished has {sorted(shard._unfinished)}"
    gone = shard._last_epochs.keys() - shard.ids.keys()
    assert not gone, f"_last_epochs has removed ids: {gone}"


def check_groups(shard: GroupShard, open_producers: Container[int]) -> None:
    """Check all groups of a shard, and that pending offsets belong to producers with an open transaction.

    ``open_producers`` are the producers with an open transaction in the shard's log.
    """
    pending = shard.offsets.pending
    if len(shard.groups) + len(pending) > MAX_ELEMENTS:
        return
    for producer_id in pending:
        assert producer_id in open_producers, f"offsets of producer {producer_id} are pending, but it has no open transaction"
    for group in shard.groups.values():
        if len(group.members) <= MAX_ELEMENTS:
            _check_group(group)
    kinds = (shard.groups.keys(), shard.consumers.groups.keys(), shard.streams.groups.keys(), shard.shares.groups.keys())
    several = [first & second for first, second in combinations(kinds, 2) if first & second]
    assert not several, f"groups of several protocols: {several}"
    for consumer_group in shard.consumers.groups.values():
        if len(consumer_group.members) <= MAX_ELEMENTS:
            _check_consumer_group(consumer_group)
    for streams_group in shard.streams.groups.values():
        if len(streams_group.members) <= MAX_ELEMENTS:
            _check_streams_group(streams_group)
    for share_group in shard.shares.groups.values():
        if len(share_group.members) <= MAX_ELEMENTS:
            _check_share_group(share_group)


def _check_share_group(group: ShareGroup) -> None:
    name, members = f"{group.group_id} ({group.state_name})", group.members
    assert group.sessions_ms.keys() == members.keys(), f"{name}: sessions of {group.sessions_ms.keys() ^ members.keys()}"
    assert group.targets.keys() <= members.keys(), f"{name}: targets of {group.targets.keys() - members.keys()}"
    for topic, count in group.subscribers.items():
        subscribed = [m.member_id for m in members.values() if topic in m.topic_names]
        assert count == len(subscribed), f"{name}: {count} members subscribe to {topic}"
    assert group.assignment_epoch <= group.group_epoch, f"{name}: target of epoch {group.assignment_epoch} > {group.group_epoch}"


def _check_streams_group(group: StreamsGroup) -> None:
    name, members = f"{group.group_id} ({group.state_name})", group.members
    held: dict[tuple[str, int], str] = {}
    for member in members.values():
        for tasks in (member.assigned, member.revoking):
            for task in ((subtopology, p) for subtopology, partitions in tasks.active.items() for p in partitions):
                assert task not in held, f"{name}: task {task} is with {held[task]} and {member.member_id}"
                held[task] = member.member_id
    processes = {task: members[member_id].process_id for task, member_id in held.items()}
    assert processes == group.holders.active, f"{name}: holders {group.holders.active}, members hold {processes}"
    static = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
    assert static == group.static_members, f"{name}: static members {group.static_members}, members say {static}"
    assert group.sessions_ms.keys() == members.keys(), f"{name}: sessions of {group.sessions_ms.keys() ^ members.keys()}"
    for kept in (group.revocations_ms, group.task_offsets, group.targets):
        assert kept.keys() <= members.keys(), f"{name}: {kept.keys() - members.keys()} are no members"


def _check_consumer_group(group: ConsumerGroup) -> None:
    name, members = f"{group.group_id} ({group.state_name})", group.members
    held = held_partitions(members)
    shared = {partition: holders for partition, holders in held.items() if len(holders) > 1}
    assert not shared, f"{name}: partitions with two members: {shared}"
    known = {(topic, p): [m] for topic, holders in group.holders.items() for p, m in holders.items()}
    assert known == held, f"{name}: holders {known}, members hold {held}"
    static = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
    assert static == group.static_members, f"{name}: static members {group.static_members}, members say {static}"
    assert group.sessions_ms.keys() == members.keys(), f"{name}: sessions of {group.sessions_ms.keys() ^ members.keys()}"
    assert group.revocations_ms.keys() <= members.keys(), f"{name}: revocations of {group.revocations_ms.keys() - members.keys()}"
    classic = {m.member_id for m in members.values() if m.classic is not None}
    assert group.classic_count == len(classic), f"{name}: {group.classic_count} classic members, not {classic}"
    for deadlines in (group.joins_ms, group.syncs_ms):
        assert deadlines.keys() <= classic, f"{name}: deadlines of {deadlines.keys() - classic}, which are no classic members"
    assert group.targets.keys() <= members.keys(), f"{name}: targets of {group.targets.keys() - members.keys()}"
    for topic, count in group.subscribers.items():
        subscribed = [m.member_id for m in members.values() if topic in m.topic_names]
        assert count == len(subscribed), f"{name}: {count} members subscribe to {topic}"


def _check_group(group: ClassicGroup) -> None:
    members = group.members.keys()
    name = f"{group.group_id} ({group.state.value})"
    assert group.join_waiters.keys() <= members, f"{name}: {group.join_waiters.keys() - members} wait to join and are no members"
    assert group.sync_waiters.keys() <= members, f"{name}: {group.sync_waiters.keys() - members} wait to sync and are no members"
    assert group.pending_sync <= members, f"{name}: {group.pending_sync - members} must sync and are no members"
    assert set(group.static_members.values()) <= members, f"{name}: static members {group.static_members} are no members"
    assert not group.pending.keys() & members, f"{name}: {group.pending.keys() & members} are members and pending"
    if group.state is ClassicGroupState.STABLE:
        assert not group.join_waiters, f"{name}: {list(group.join_waiters)} wait to join"
        assert not group.sync_waiters, f"{name}: {list(group.sync_waiters)} wait to sync"
    elif group.state is ClassicGroupState.EMPTY:
        assert not group.members, f"{name} has members"
