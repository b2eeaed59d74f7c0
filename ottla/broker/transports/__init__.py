"""Requests between coordinators and partition leaders on several brokers.

- `coordinators`: connects the coordinators of a broker with the coordinators and leaders on other brokers.
- `leaders`: finds the leader of a partition in the cluster's metadata, and the connection to it.
- `marker_transport`: sends markers to the leaders of their partitions (TransactionMarkerChannelManager).
- `remote_verification`: verifies with the transaction's coordinator, on any broker, that a partition belongs to a transaction
  (KIP-890).
"""
