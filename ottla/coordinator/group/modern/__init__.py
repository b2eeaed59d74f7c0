"""The common part of the groups in which the broker assigns: consumer, streams and share groups (AbstractModernGroup of Kafka).

Each protocol keeps its heartbeat, its own records and its reconciliation, and passes them to this package, which never imports it.

- `records`: records that consumer, streams and share groups have in common (GroupCoordinatorRecordHelpers of Kafka).
"""
