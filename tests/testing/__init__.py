"""Tests of `ottla.testing` that start no broker: parts of `ottla.Broker`, `ottla.Cluster` and the pytest plugin."""
