"""Handles on a broker and on a cluster for tests, and the pytest plugin. `ottla.Broker` and `ottla.Cluster` are imported from here.

- `broker_process`: a process of ``ottla serve`` as whoever starts it sees it: what it prints and logs, and how it ends.
- `cluster_handle`: a handle on several brokers and their controller, for tests of what happens when brokers fail.
- `cluster_queries`: the questions that the handle and the plugin ask a cluster, ottla's or another.
- `handle`: a handle on a broker process: starts, stops, kills and restarts it on the same directory, and empties it for each test.
- `pytest_plugin`: fixtures for tests against a broker: ``ottla``, ``ottla_bootstrap``, ``ottla_records``, ``ottla_topic``,
  ``ottla_group``; and ``ottla_cluster`` for tests against several brokers.
- `python_path`: PYTHONPATH for processes that start in another directory than this one.
- `session_brokers`: the brokers and clusters of one pytest session and worker.
- `report`: the lines about transactions in the report of a failed test.
"""
