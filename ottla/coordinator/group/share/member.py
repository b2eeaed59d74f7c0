"""A member of a share group (ShareGroupMember of Kafka)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ottla.coordinator.group.assignors.members import Assignment


class ShareGroupMember(msgspec.Struct, frozen=True):
    """One member as the log describes it. Immutable: a changed member is another object.

    ``member_epoch`` is the epoch of the member's target assignment. Partitions are shared, so a member never waits for another
    member: it reaches its target in one step, without intermediate states.
    """

    instance_id: ClassVar[None] = None
    """Share groups have no static members (KIP-932)."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    member_epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = {}
