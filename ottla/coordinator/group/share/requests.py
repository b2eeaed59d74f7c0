"""Requests, responses and configuration of share groups."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ottla.coordinator.group.assignors.members import Assignment
from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.coordinator.group.named_topics import check_member_topics
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ASSIGNOR_NAME = "simple"
MAX_MEMBER_ID_CHARACTERS = 36
"""Maximum length of a member id, in UTF-16 units. Members generate their own ids, which should be UUIDs
(KafkaApis.isMemberIdValid)."""
NO_OFFSET = -1
"""Unset start offset of a state: the first fetch sets it by ``share.auto.offset.reset``."""


class ShareGroupConfig(msgspec.Struct, frozen=True):
    """The broker's ``group.share.*`` configs, and the group's own configs, which override them."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0
    initialize_retry_interval_ms: int = 30_000
    max_size: int = 200


ShareHeartbeat = Heartbeat[ShareGroupHeartbeatRequest]


class ShareHeartbeatAnswer(msgspec.Struct):
    """The response to a heartbeat. ``assignment`` is None if the member already knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


StartOffsets = Mapping[bytes, Mapping[int, int]]
"""Start offsets by topic id and partition."""


class Initialization(msgspec.Struct, frozen=True):
    """States that the share coordinator must initialize (InitializeShareGroupStateParameters of Kafka)."""

    group_id: str
    state_epoch: int
    start_offsets: StartOffsets

    def partitions(self) -> dict[bytes, frozenset[int]]:
        return {topic_id: frozenset(offsets) for topic_id, offsets in self.start_offsets.items()}


class ShareHeartbeatOutcome(msgspec.Struct):
    """The response to a heartbeat, and the request to the share coordinator, or None."""

    answer: ShareHeartbeatAnswer
    initialization: Initialization | None = None


def check_member_id(member_id: str | None) -> None:
    """Raise INVALID_REQUEST if the id is missing or too long."""
    if not member_id or len(member_id.encode("utf-16-le", "surrogatepass")) // 2 > MAX_MEMBER_ID_CHARACTERS:
        raise KafkaError(Code.INVALID_REQUEST, "Invalid member id in the request.")


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for a request that no group would accept."""
    check_member_id(request.member_id)
    check_member_topics(request.subscribed_topic_names or ())
    for text, name in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise KafkaError(Code.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            raise KafkaError(Code.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise KafkaError(Code.INVALID_REQUEST, "MemberEpoch is invalid.")
