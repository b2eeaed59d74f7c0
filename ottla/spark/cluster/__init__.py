"""Requests of the sink, the sources and the jobs to a cluster.

- `batch_fetcher`: fetches the batches of a partition from a broker, including those of aborted and open transactions.
- `batch_limits`: reads max.message.bytes of the topics, so that the sink builds batches that the broker accepts.
- `client`: the client of the sink and of the jobs: patient, and only with versions that let many processes share one transaction.
- `stock_client`: librdkafka's settings for a cluster's address and the client's credentials (its CONFIGURATION.md).
- `topics`: the topics that the sink can write to, and their partition counts.
"""
