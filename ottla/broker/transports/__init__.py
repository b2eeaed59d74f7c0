"""What coordinators and partition leaders ask each other, on this broker or on another.

- `coordinators`: has the coordinators of a broker ask those of the others.
- `leaders`: which broker leads a partition, as the cluster's metadata says, and the connection to it.
- `local_coordinators`: the coordinators of this broker, as they are asked to write markers and to verify partitions of a
  transaction.
- `marker_transport`: carries markers to the brokers that lead the partitions (TransactionMarkerChannelManager).
- `remote_verification`: asks the transaction's coordinator, on whichever broker it is, whether a partition belongs to a transaction
  (KIP-890).
"""
