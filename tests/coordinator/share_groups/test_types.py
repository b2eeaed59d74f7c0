"""Share groups in one shard with groups of other protocols: group ids are shared, and no group replaces one of another type."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.share.requests import ShareHeartbeatOutcome
from ottla.coordinator.invariants import check_groups
from ottla.protocol.errors import Code
from tests.coordinator.classic_world import Client
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group.test_group_types import GroupTypesWorld, settle_classic
from tests.coordinator.group_world import GROUP
from tests.coordinator.heartbeats import share_heartbeat


class ShareTypesWorld(GroupTypesWorld):
    def beat_share(self, member_id: str, epoch: int, **fields: Any) -> ShareHeartbeatOutcome:
        if epoch == 0:
            fields = {"topic_names": ["t"], **fields}
        outcome: ShareHeartbeatOutcome = self.run(
            self.shard.share_heartbeat(share_heartbeat(GROUP, member_id, epoch, **fields), self.now_ms)
        )
        check_groups(self.shard, ())
        return outcome


@pytest.fixture
def world() -> ShareTypesWorld:
    return ShareTypesWorld()


def test_share_group_is_described_and_deleted_only_by_a_request(world: ShareTypesWorld) -> None:
    world.beat_share("a", 0)
    view = world.shard.view(GROUP)
    assert view is not None
    assert (view.type_name, view.state_name, view.protocol_type_name) == ("share", "Stable", "share")
    with refused(Code.NON_EMPTY_GROUP):
        world.delete()
    world.beat_share("a", -1)
    assert view.state_name == "Empty"
    world.expire()
    world.reload()
    assert world.shard.group_ids() == [GROUP], "an empty share group is kept until it is deleted"
    world.delete()
    assert world.shard.group_ids() == []
    world.reload()
    assert world.shard.group_ids() == []


def test_share_group_member_is_removed_when_its_session_ends(world: ShareTypesWorld) -> None:
    world.beat_share("a", 0)
    world.tick(45_000)
    assert not world.shard.shares.groups[GROUP].members


def test_share_group_does_not_replace_groups_of_other_types(world: ShareTypesWorld) -> None:
    member = settle_classic(world)
    with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a share group."):
        world.beat_share("a", 0)
    world.run(world.shard.membership.leave(GROUP, [(member.member_id, None)], world.now_ms))
    with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a share group."):
        world.beat_share("a", 0)


def test_share_group_is_not_replaced_by_groups_of_other_types(world: ShareTypesWorld) -> None:
    world.beat_share("a", 0)
    for _ in range(2):
        with refused(Code.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a consumer group."):
            world.beat_consumer("c", 0)
        with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
            world.join(Client())
        with refused(Code.GROUP_ID_NOT_FOUND, "is not a consumer group."):
            world.commit_at(1, "a")
        world.shard.check_fetch(GROUP, None, -1)
        with refused(Code.GROUP_ID_NOT_FOUND, "is not a consumer group."):
            world.shard.delete_offsets(GROUP, [("t", 0)])
        if world.shard.shares.groups[GROUP].members:
            world.beat_share("a", -1)
