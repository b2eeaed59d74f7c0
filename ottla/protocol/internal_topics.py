"""Names of the logs in which a cluster stores its own state (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

from typing import Final

METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of the cluster's metadata. This log is not a topic: no client can create, write, read or delete it by name."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_STATE: Final = {
    OFFSETS_TOPIC: "the committed offsets of all groups",
    TRANSACTION_TOPIC: "the state of all transactional ids",
    SHARE_STATE_TOPIC: "the state of all share groups",
}
"""The state that a cluster loses if an internal topic is deleted, by topic name."""
INTERNAL_TOPICS: Final = frozenset(INTERNAL_STATE)
