"""Checks that a request of AddRaftVoter or RemoveRaftVoter has a voter and is for this cluster (KafkaRaftClient)."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.config.live_config import LiveConfig
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.primitives import NO_UUID


class Ports(Protocol):
    live_config: LiveConfig
    cluster_id: str
    directory_id: bytes


def check_voter(ports: Ports, verb: str, cluster_id: str | None, voter_id: int, directory_id: bytes) -> None:
    """Raise INCONSISTENT_CLUSTER_ID or INVALID_REQUEST for an invalid request. ``verb``, for the message, is Add or Remove."""
    if cluster_id is not None and cluster_id != ports.cluster_id:
        reason = f'The given id "{cluster_id}" doesn\'t match the cluster id "{ports.cluster_id}"'
        raise KafkaError(Code.INCONSISTENT_CLUSTER_ID, reason)
    if voter_id < 0 or directory_id == NO_UUID:
        raise KafkaError(Code.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter")
