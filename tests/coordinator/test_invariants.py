"""Each invariant check of a coordinator detects a state that breaks the invariant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.records import CommittedOffset
from ottla.coordinator.invariants import check_groups, check_transactions
from ottla.coordinator.transaction.metadata import TxnMetadata
from ottla.protocol.transaction_states import TxnState
from tests.coordinator.classic_world import T0, ClassicGroupWorld, stable
from tests.coordinator.group_world import GROUP
from tests.coordinator.transaction_world import ID, TransactionWorld


def test_invariant_check_reports_a_decreasing_producer_epoch() -> None:
    world = TransactionWorld()
    world.init()
    now = world.init()
    older = TxnMetadata(ID, now.producer_id, now.epoch - 1, 60_000, TxnState.EMPTY)
    with pytest.raises(AssertionError, match="after epoch 1"):
        world.shard._result(None, older)
    world.shard._result(None, TxnMetadata(ID, now.producer_id + 1, 0, 60_000, TxnState.EMPTY))


def test_invariant_check_reports_inconsistent_indexes_of_transactional_ids() -> None:
    world = TransactionWorld()
    world.add(world.init())
    check_transactions(world.shard)
    known = world.shard._unfinished.pop(ID)
    with pytest.raises(AssertionError, match="_unfinished has"):
        check_transactions(world.shard)
    world.shard._unfinished[ID] = known
    world.shard._last_epochs["gone"] = (1, 1, 0)
    with pytest.raises(AssertionError, match="gone"):
        check_transactions(world.shard)


def test_invariant_check_reports_pending_offsets_without_an_open_transaction() -> None:
    world = ClassicGroupWorld()
    world.shard.offsets.put((GROUP, *T0), CommittedOffset(1, -1, "", 0), 7)
    check_groups(world.shard, {7: 0})
    with pytest.raises(AssertionError, match="producer 7"):
        check_groups(world.shard, {})


BREAKS: dict[str, Callable[[ClassicGroup], object]] = {
    "wait to join": lambda group: group.join_waiters.update(x=print),
    "wait to sync": lambda group: group.sync_waiters.update(x=print),
    "must sync": lambda group: group.pending_sync.add("x"),
    "static members": lambda group: group.static_members.update(i="x"),
    "are members and pending": lambda group: group.pending.update(dict.fromkeys(group.members, 1)),
    r"Stable.*wait to join": lambda group: group.join_waiters.update(dict.fromkeys(group.members, print)),
    r"Stable.*wait to sync": lambda group: group.sync_waiters.update(dict.fromkeys(group.members, print)),
    "has members": lambda group: setattr(group, "state", ClassicGroupState.EMPTY),
}


@pytest.mark.parametrize("says", BREAKS)
def test_invariant_check_reports_broken_group_invariants(says: str) -> None:
    world = ClassicGroupWorld()
    stable(world)
    check_groups(world.shard, ())
    BREAKS[says](world.shard.groups[GROUP])
    with pytest.raises(AssertionError, match=says):
        check_groups(world.shard, ())
