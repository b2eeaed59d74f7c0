"""Requests of the sink, the sources and the jobs to a cluster.

- `batch_fetcher`: fetches all batches of a partition, including aborted batches and batches of open transactions.
- `batch_limits`: reads max.message.bytes of the topics, so that the sink builds batches that the broker accepts.
- `client`: creates the client of the sink and of the jobs.
- `topics`: finds the topics that the sink can write to, and their partition counts.
"""
