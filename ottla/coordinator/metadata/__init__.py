"""The cluster's metadata as a state machine over the records of `__cluster_metadata` (KRaft's schemas).

- `acls`: the cluster's ACLs, by which an authorizer decides.
- `broker_registration`: registrations of brokers and controllers, replayed from the metadata log.
- `client_quotas`: quotas of users, clients and IP addresses, as the cluster stores them.
- `cluster`: cluster metadata: topics, configs, feature levels, registrations and producer-id blocks, in KRaft's record schemas.
- `config_totals`: limits the total size of configs for groups and client metrics subscriptions, because clients may choose any
  name.
- `delegation_tokens`: delegation tokens (KIP-48), credentials that clients create for other processes.
- `eligible_replicas`: clears eligible leader replicas when ``min.insync.replicas`` changes (KIP-966).
- `metadata_delta`: the changes of a sequence of metadata records, for components that follow the cluster's metadata.
- `metadata_records`: frames a record of the cluster's metadata log: frame version, type and version, then the message.
- `metadata_transaction`: a transaction in the cluster's metadata log (KIP-868). Its records take effect at its end, and never after
  an abort.
- `partition_registration`: the metadata of one partition: its replicas, its leader, and their epochs.
- `scram_credentials`: SCRAM credentials of users (KIP-554), with which SASL listeners authenticate clients.
- `server_config`: returns the server's value of topic configs, for a controller's decisions about topics without a config of their
  own.
- `topic_names`: checks topic names.
- `topics`: a topic of the cluster's metadata. Equal partitions share one object and are encoded once, to save memory and time.
"""
