"""Starts and controls brokers in tests (`ottla.Broker`, `ottla.Cluster`), and contains the pytest plugin.

- `async_operations`: coroutines for the requests of `Broker` and `Cluster`.
- `broker_clock`: the clock of a broker, and snapshots of its data.
- `broker_process`: a child process that runs ``ottla serve``, with its output, logs and exit.
- `client_fixtures`: fixtures with producers and consumers of the installed client library.
- `cluster_handle`: `Cluster`, several brokers and their controller, for tests of broker failures.
- `cluster_queries`: requests that `Broker`, `Cluster` and the plugin send to a cluster of ottla or Apache Kafka.
- `expectation`: compares records with the expected ones, and describes the difference.
- `external`: an existing broker against which the plugin's tests run.
- `failure_hook`: adds `report` to the report of a failed test.
- `handle`: `Broker`, one broker for tests.
- `operations`: the requests of `Broker` and `Cluster`: produce, consume and expect records, and manage topics, groups and configs.
- `pytest_plugin`: fixtures for tests against a broker (``ottla``) or several brokers (``ottla_cluster``).
- `python_path`: PYTHONPATH for processes that start in another directory than this process.
- `recipes`: named failures, each of which a fault or a request causes.
- `registry_fixture`: the fixture ``ottla_schema_registry``.
- `serialization`: converts values of tests to bytes of records.
- `session_brokers`: the brokers and clusters of one pytest session and worker.
- `security`: certificates, users, ACLs, and the configurations of clients.
- `topic_reader`: waits for the records of a topic.
- `transactions`: `Transaction`, which writes records and commits offsets.
- `report`: what happened on the broker, in the report of a failed test.
"""
