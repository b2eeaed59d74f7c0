"""A member of a share group (ShareGroupMember of Kafka)."""

from __future__ import annotations

import msgspec

from ottla.coordinator.group.assignors.members import Assignment


class ShareGroupMember(msgspec.Struct, frozen=True):
    """Everything that the log tells of one member. A change is another `ShareGroupMember`.

    ``member_epoch`` is the epoch of the target assignment that the member has. Partitions are shared, so none has to be given up
    by one member before another gets it: a member has its target as soon as it is told, and no state in between.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    member_epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = {}
