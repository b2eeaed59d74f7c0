"""Handles for a broker and for a cluster in tests (`ottla.Broker`, `ottla.Cluster`), and the pytest plugin.

- `broker_clock`: the clock and the snapshots of a broker, as `ottla.Broker` has them.
- `broker_process`: a child process that runs ``ottla serve``, with its output, logs and exit.
- `cluster_handle`: a handle for several brokers and their controller, for tests of broker failures.
- `cluster_queries`: requests that the handles and the plugin send to a cluster of ottla or Apache Kafka.
- `handle`: a handle for one broker, for tests.
- `pytest_plugin`: fixtures for tests against a broker: ``ottla``, ``ottla_bootstrap``, ``ottla_records``, ``ottla_topic``,
  ``ottla_group``, ``ottla_schema_registry``; and ``ottla_cluster`` for tests against several brokers.
- `python_path`: PYTHONPATH for processes that start in another directory than this process.
- `registry_fixture`: the fixture ``ottla_schema_registry``.
- `session_brokers`: the brokers and clusters of one pytest session and worker.
- `security`: certificates, users, ACLs, and the configurations of clients.
- `report`: the section about transactions in the report of a failed test.
"""
