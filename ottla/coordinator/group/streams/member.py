"""A member of a streams group (StreamsGroupMember of Kafka): a process of the application, with one or more threads."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from ottla.coordinator.group.modern.group import UNKNOWN_TIMEOUT_MS
from ottla.coordinator.group.streams.tasks import AssignedTasks

UNKNOWN_TOPOLOGY_EPOCH = -1

Endpoint = tuple[str, int]
"""Host and port where the application answers interactive queries."""


class StreamsMemberState(IntEnum):
    """The state of a member. The numbers occur in Kafka's records. UNKNOWN is a state that only a newer broker knows."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


def state_of(number: int) -> StreamsMemberState:
    try:
        return StreamsMemberState(number)
    except ValueError:
        return StreamsMemberState.UNKNOWN


class StreamsGroupMember(msgspec.Struct, frozen=True):
    """One member. ``assigned`` are its tasks, ``revoking`` the tasks that it must give up.

    ``previous_epoch`` is still accepted from a member that lost the last response.
    """

    member_id: str
    member_epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = UNKNOWN_TIMEOUT_MS
    topology_epoch: int = UNKNOWN_TOPOLOGY_EPOCH
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: dict[str, str] = {}
    assigned: AssignedTasks = AssignedTasks()
    revoking: AssignedTasks = AssignedTasks()

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.member_epoch == epoch
