"""The common part of the groups in which the broker assigns: consumer, streams and share groups (AbstractModernGroup of Kafka).

Each protocol keeps its heartbeat, its own records and its reconciliation, and passes to this package what is its own
(`groups.ModernProtocol`); the package imports no protocol.

- `effects`: changes of consumer, streams and share groups in memory that follow once a decision's records are in the log.
- `group`: the common part of the groups of all three protocols (AbstractModernGroup and ModernGroupMember of Kafka).
- `groups`: all groups of one modern protocol in a shard: the replay of their records, and their deadlines.
- `records`: records that consumer, streams and share groups have in common (GroupCoordinatorRecordHelpers of Kafka).
- `requests`: the one form in which heartbeats of all three protocols reach the coordinator: Kafka's own message, and its client.
- `sender`: checks of the member that sent a heartbeat, with the errors of Kafka's GroupMetadataManager.
- `target`: when a target assignment may be computed, and the input of an assignor (TargetAssignmentBuilder of Kafka).
"""
