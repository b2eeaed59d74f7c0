"""Statuses in responses: of a heartbeat (StreamsGroupHeartbeatResponse.Status) and of a topology's description."""

from __future__ import annotations

from enum import IntEnum

from ottla.protocol.messages.streams_group_heartbeat import Status


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class DescriptionStatus(IntEnum):
    """Whether StreamsGroupDescribe has a description of the topology (KIP-1331). ottla stores no descriptions."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


def status(code: StatusCode, detail: str) -> Status:
    return Status(status_code=int(code), status_detail=detail)
