"""The cluster's metadata as a state machine over the records of `__cluster_metadata` (KRaft's schemas).

- `broker_registration`: the brokers and controllers that the cluster's metadata knows, as they registered themselves, replayed from
  the metadata log.
- `client_quotas`: quotas of users, clients and IP addresses. ottla keeps and describes them as Kafka does, and does not enforce
  them.
- `cluster`: cluster metadata: topics, configs, feature levels, registrations and producer-id blocks, in KRaft's record schemas.
- `config_totals`: how much the configs of groups and subscriptions to client metrics may take, which clients set for names that
  need not exist.
- `eligible_replicas`: the end of replicas' eligibility by another ``min.insync.replicas`` (KIP-966).
- `metadata_delta`: what a run of metadata records has changed, for those who keep something in line with the cluster's metadata
  (MetadataDelta).
- `metadata_records`: how a record of the cluster's metadata log is framed: frame version, type and version stand before the
  message.
- `metadata_transaction`: a transaction in the cluster's metadata log (KIP-868): what its records say is in force when it ends, or
  never.
- `partition_registration`: what the cluster's metadata says of one partition: its replicas, who leads them, and in which epochs.
- `scram_credentials`: SCRAM credentials of users (KIP-554). ottla keeps them as Kafka does, and never asks a client for a password.
- `server_config`: where a controller's decisions find the configs of topics that have none of their own.
- `topic_names`: which names a topic may have.
- `topics`: a topic of the cluster's metadata, and what makes many partitions cheap: equal ones are one object, and are encoded
  once.
"""
