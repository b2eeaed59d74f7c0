"""The methods of `ottla.Broker` and `ottla.Cluster` that return what a client needs: configurations and delegation tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ottla.testing.security.delegation_token import DelegationToken

if TYPE_CHECKING:
    from ottla.testing.cluster_queries import Questions
    from ottla.testing.security.broker_security import BrokerSecurity


class SecuredHandle(Protocol):
    """`ottla.Broker` or `ottla.Cluster`."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def _security(self) -> BrokerSecurity: ...

    @property
    def _questions(self) -> Questions: ...


def client_config(
    self: SecuredHandle,
    client: str,
    user: str | None = None,
    *,
    mechanism: str | None = None,
    password: str | None = None,
    token: DelegationToken | None = None,
) -> dict[str, Any]:
    """Return the settings with which a client library connects: ``confluent`` (librdkafka), ``kafka-python``, ``aiokafka``,
    ``java``, ``franz-go``, ``sarama`` or ``kafkajs``. A client of a `Cluster` connects to all brokers.

    ``user`` is one of ``users`` given to `Broker`, by default a super user. A wrong ``password`` is for tests of refused
    clients. The default ``mechanism`` is SCRAM-SHA-512, and PLAIN without ``user``. With OAUTHBEARER, which the setting
    sasl.enabled.mechanisms must contain, the client has an unsecured token for an hour. With ``token``, a delegation token, the
    client acts as the token's owner. Raises ValueError.
    """
    return self._security.client_config(self.bootstrap, client, user, mechanism, password, token)


def client_properties(
    self: SecuredHandle, user: str | None = None, *, mechanism: str | None = None, token: DelegationToken | None = None
) -> Path:
    """Write the ``java`` settings to a file for Kafka's tools and ``ottla --command-config``. Only this user can read the file,
    which exists as long as the broker's directory. Raises ValueError."""
    return self._security.client_properties(self.bootstrap, user, mechanism, token)


def delegation_token(self: SecuredHandle, user: str) -> DelegationToken:
    """Create a delegation token of a user (KIP-48) for `client_config` and `client_properties`. All brokers know the token when
    this method returns. It expires after ``delegation.token.expiry.time.ms`` (a day) of the broker's clock. Raises ValueError
    without SASL and for an unknown user, and `ottla.client.ClientError`."""
    return self._security.delegation_token(self._questions.cluster, user)
