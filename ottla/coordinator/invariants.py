"""What is true of a coordinator's state after every command that was carried out."""

from __future__ import annotations

from collections.abc import Container

from ottla.coordinator.group.group import Group, GroupState
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.states import AT_REST
from ottla.invariants import MOST_ELEMENTS


def check_transactions(shard: TransactionShard) -> None:
    """Sweeps see every transaction that is not at rest, and nothing is remembered of ids that are gone."""
    if len(shard.ids) > MOST_ELEMENTS:
        return
    unfinished = {i: m for i, m in shard.ids.items() if m.state not in AT_REST}
    assert unfinished == shard._unfinished, f"{sorted(unfinished)} are not at rest, sweeps see {sorted(shard._unfinished)}"
    gone = shard._last_epochs.keys() - shard.ids.keys()
    assert not gone, f"epochs of ids that are gone: {gone}"


def check_groups(shard: GroupShard, open_producers: Container[int]) -> None:
    """``open_producers`` have an open transaction in the shard's log: nobody else's offsets are pending."""
    pending = shard.offsets.pending
    if len(shard.groups) + len(pending) > MOST_ELEMENTS:
        return
    for producer_id in pending:
        assert producer_id in open_producers, f"offsets of producer {producer_id} are pending, which has no open transaction"
    for group in shard.groups.values():
        if len(group.members) <= MOST_ELEMENTS:
            _check_group(group)


def _check_group(group: Group) -> None:
    members = group.members.keys()
    name = f"{group.group_id} ({group.state.value})"
    assert group.join_waiters.keys() <= members, f"{name}: {group.join_waiters.keys() - members} wait to join and are no members"
    assert group.sync_waiters.keys() <= members, f"{name}: {group.sync_waiters.keys() - members} wait to sync and are no members"
    assert group.pending_sync <= members, f"{name}: {group.pending_sync - members} are to sync and are no members"
    assert set(group.static_members.values()) <= members, f"{name}: static members {group.static_members} are no members"
    assert not group.pending.keys() & members, f"{name}: {group.pending.keys() & members} are members and still to become so"
    if group.state is GroupState.STABLE:
        assert not group.join_waiters, f"{name}: {list(group.join_waiters)} wait to join"
        assert not group.sync_waiters, f"{name}: {list(group.sync_waiters)} wait to sync"
    elif group.state is GroupState.EMPTY:
        assert not group.members, f"{name} has members"
