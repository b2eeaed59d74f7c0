"""The common part of groups whose assignments the broker computes: consumer, streams and share groups (AbstractModernGroup of
Kafka).

Each protocol has its own heartbeat, records and reconciliation, and describes the differences by a `groups.ModernProtocol`. This
package imports no protocol.

- `effects`: changes of consumer, streams and share groups in memory that follow once a decision's records are in the log.
- `group`: the state that groups of these protocols have in common.
- `groups`: all groups of one modern protocol in a shard: the replay of their records, and their deadlines.
- `records`: records that consumer, streams and share groups have in common.
- `requests`: a heartbeat in these groups: Kafka's own message, and the client that sent it.
- `sender`: checks of the member that sent a heartbeat, with the errors of Kafka's GroupMetadataManager.
- `target`: when a target assignment may be computed, and the input of an assignor.
"""
