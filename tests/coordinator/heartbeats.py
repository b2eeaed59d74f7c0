"""Heartbeats of members of consumer and share groups, with short names for the fields of Kafka's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.coordinator.group.consumer.requests import ConsumerHeartbeat
from ottla.coordinator.group.modern.requests import Heartbeat
from ottla.coordinator.group.share.requests import ShareHeartbeat
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

NAMES = {"topic_names": "subscribed_topic_names", "topic_regex": "subscribed_topic_regex", "assignor": "server_assignor"}
OF_THE_CLIENT = ("client_id", "client_host", "version")


def consumer_heartbeat(
    group_id: str, member_id: str, epoch: int, *, owned: Mapping[bytes, frozenset[int]] | None = None, **options: Any
) -> ConsumerHeartbeat:
    """Return a heartbeat of a member that lists its ``owned`` partitions. ``options`` are fields of the request or the client."""
    fields, client = _split(options)
    listed = None if owned is None else [TopicPartitions(topic_id=t, partitions=sorted(p)) for t, p in owned.items()]
    given = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch, "topic_partitions": listed, **fields}
    return Heartbeat(ConsumerGroupHeartbeatRequest(**given), owned=owned, **client)


def share_heartbeat(group_id: str, member_id: str, epoch: int, **options: Any) -> ShareHeartbeat:
    fields, client = _split(options)
    given = {"group_id": group_id, "member_id": member_id, "member_epoch": epoch, **fields}
    return Heartbeat(ShareGroupHeartbeatRequest(**given), **client)


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    fields = {NAMES.get(name, name): value for name, value in options.items() if name not in OF_THE_CLIENT}
    return fields, {name: value for name, value in options.items() if name in OF_THE_CLIENT}
