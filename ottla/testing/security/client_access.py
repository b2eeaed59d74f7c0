"""The methods of `ottla.Broker` and `ottla.Cluster` that return what a client needs: configurations and delegation tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A delegation token (KIP-48), with which a client acts as the token's owner until the token expires."""

    token_id: str
    hmac: str = field(repr=False)
    """The client's secret, in base64."""
    owner: str
    expires_ms: int
    """The end of the token on the broker's clock, in ms since 1970."""


class HandleSecurity(Protocol):
    """The security of a handle (`broker_security.BrokerSecurity`)."""

    def client_config(
        self,
        bootstrap: str,
        client: str,
        user: str | None,
        mechanism: str | None,
        password: str | None,
        token: DelegationToken | None = None,
    ) -> dict[str, Any]: ...

    def client_properties(
        self, bootstrap: str, user: str | None, mechanism: str | None, token: DelegationToken | None = None
    ) -> Path: ...

    def delegation_token(self, cluster: Callable[[], AbstractContextManager[KafkaClient]], user: str) -> DelegationToken: ...


class Queries(Protocol):
    """The requests of a handle (`cluster_queries.Questions`)."""

    def cluster(self) -> KafkaClient: ...


class SecuredHandle(Protocol):
    """`ottla.Broker` or `ottla.Cluster`."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def _security(self) -> HandleSecurity: ...

    @property
    def _questions(self) -> Queries: ...


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
