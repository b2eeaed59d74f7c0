"""An existing broker against which the tests of the pytest plugin run, such as Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.control.argument_types import checks_argument_types
from ottla.testing import operations
from ottla.testing.async_operations import AsyncOperations
from ottla.testing.cluster_queries import Questions

_SET_BY_BROKER = frozenset({"acls", "clock", "faults", "ready"})
"""Attributes that `ottla.Broker` sets in its constructor."""


@checks_argument_types
class External:
    """An existing broker, with the methods of `ottla.Broker` that work with every Kafka broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._questions = Questions(lambda: bootstrap)

    def __repr__(self) -> str:
        return f"<the broker at {self.bootstrap}>"

    def __getattr__(self, name: str) -> Any:
        """Skip the test that uses what only a broker of the plugin has, such as ``faults`` or ``kill``."""
        from ottla.testing.handle import Broker

        # An attribute of this class is looked up here only if its property has raised AttributeError.
        is_of_broker = name in _SET_BY_BROKER or hasattr(Broker, name)
        if name.startswith("_") or not is_of_broker or hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        pytest.skip(f"ottla.{name} needs a broker that the tests start, but the tests run against {self.bootstrap}")

    # requests: see `ottla.testing.operations`

    produce = operations.produce
    transaction = operations.transaction
    consume = operations.consume
    expect = operations.expect
    create_topic = operations.create_topic
    delete_topic = operations.delete_topic
    delete_group = operations.delete_group
    alter_config = operations.alter_config
    commit_offsets = operations.commit_offsets
    records = operations.records
    describe_transaction = operations.describe_transaction
    lag = operations.lag
    wait_for = operations.wait_for

    @property
    def aio(self) -> AsyncOperations:
        """Coroutines for the requests that wait for a broker."""
        return AsyncOperations(self)

    def client_config(self, client: str, user: str | None = None) -> dict[str, Any]:
        """Return the settings with which a client library connects, as `ottla.Broker.client_config` does."""
        from ottla.testing.security.client_configs import CLIENTS, ClientCredentials

        if user is not None:
            raise ValueError(f"user: {user!r} is not known, because {self!r} has no users of its own")
        return CLIENTS[client](ClientCredentials(bootstrap=self.bootstrap, protocol="PLAINTEXT"))
