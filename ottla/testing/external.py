"""An existing broker against which the tests of the pytest plugin run, such as Apache Kafka."""

from __future__ import annotations

from typing import Any

from ottla.control.argument_types import checks_argument_types
from ottla.testing import operations
from ottla.testing.async_operations import AsyncOperations
from ottla.testing.cluster_queries import Questions


@checks_argument_types
class External:
    """An existing broker, with the methods of `ottla.Broker` that work with every Kafka broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._questions = Questions(lambda: bootstrap)

    def __repr__(self) -> str:
        return f"<the broker at {self.bootstrap}>"

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
