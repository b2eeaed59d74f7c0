"""What goes into and comes out of share groups."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.group.named_topics import check_member_topics
from ottla.protocol.errors import Code, KafkaError

ASSIGNOR_NAME = "simple"
MAX_MEMBER_ID_CHARACTERS = 36
"""A member makes its own id up, which is to be a UUID (KafkaApis.isMemberIdValid)."""
NO_OFFSET = -1
"""The start offset of a state whose first fetch is to find one (``share.auto.offset.reset``)."""


class ShareGroupConfig(msgspec.Struct, frozen=True):
    """``group.share.*`` of the broker, and what a group has set instead."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    initialize_retry_interval_ms: int = 30_000
    max_size: int = 200


class ShareHeartbeat(msgspec.Struct, frozen=True):
    """A ShareGroupHeartbeat as the coordinator sees it. What is None has not changed since the member said it last."""

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topic_names: list[str] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareHeartbeatAnswer(msgspec.Struct):
    """``assignment`` is None where the member has been told already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


StartOffsets = Mapping[bytes, Mapping[int, int]]
"""By topic id and partition."""


class Initialization(msgspec.Struct, frozen=True):
    """States that the share coordinator is to begin (InitializeShareGroupStateParameters)."""

    group_id: str
    state_epoch: int
    start_offsets: StartOffsets

    def partitions(self) -> dict[bytes, frozenset[int]]:
        return {topic_id: frozenset(offsets) for topic_id, offsets in self.start_offsets.items()}


class ShareHeartbeatOutcome(msgspec.Struct):
    """The answer, and what the share coordinator has to be asked besides; None for nothing."""

    answer: ShareHeartbeatAnswer
    initialization: Initialization | None = None


def check_member_id(member_id: str | None) -> None:
    """Raises INVALID_REQUEST."""
    if not member_id or len(member_id.encode("utf-16-le", "surrogatepass")) // 2 > MAX_MEMBER_ID_CHARACTERS:
        raise KafkaError(Code.INVALID_REQUEST, "Invalid member id in the request.")


def check_heartbeat(beat: ShareHeartbeat) -> None:
    """Raises INVALID_REQUEST for what no group would take."""
    check_member_id(beat.member_id)
    check_member_topics(beat.topic_names or ())
    for text, name in ((beat.member_id, "MemberId"), (beat.group_id, "GroupId"), (beat.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise KafkaError(Code.INVALID_REQUEST, f"{name} can't be empty.")
    if beat.member_epoch == JOIN_EPOCH:
        if not beat.topic_names:
            raise KafkaError(Code.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    elif beat.member_epoch < LEAVE_EPOCH:
        raise KafkaError(Code.INVALID_REQUEST, "MemberEpoch is invalid.")
