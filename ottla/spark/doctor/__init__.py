"""``ottla spark doctor``: checks before a stream starts whether it can write exactly once, without changing the cluster.

- `cluster_checks`: checks of the cluster: versions, rights, topics, timeouts, clocks.
- `machine_checks`: checks of this machine: Python, Spark, the packages, Java.
"""
