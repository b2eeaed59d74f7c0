"""Handles for a broker and for a cluster in tests, and the pytest plugin. `ottla.Broker` and `ottla.Cluster` are imported from
here.

- `broker_clock`: the clock and the snapshots of a broker, as `ottla.Broker` has them.
- `broker_process`: a child process that runs ``ottla serve``, with its output, logs and exit.
- `cluster_handle`: a handle for several brokers and their controller, for tests of broker failures.
- `cluster_queries`: requests that the handles and the plugin send to a cluster, ottla's or another.
- `handle`: a handle for a broker process: starts, stops, kills and restarts it on the same directory, and empties it for each test.
- `pytest_plugin`: fixtures for tests against a broker: ``ottla``, ``ottla_bootstrap``, ``ottla_records``, ``ottla_topic``,
  ``ottla_group``; and ``ottla_cluster`` for tests against several brokers.
- `python_path`: PYTHONPATH for processes that start in another directory than this one.
- `session_brokers`: the brokers and clusters of one pytest session and worker.
- `security`: certificates, users, ACLs, and the configurations of clients.
- `report`: the lines about transactions in the report of a failed test.
"""
