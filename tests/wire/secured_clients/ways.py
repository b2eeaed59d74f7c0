"""Brokers for each way to connect, a transport and a mechanism of SASL, and the configuration of each client for them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka.abc import AbstractTokenProvider as AsynchronousTokens
from kafka.net.sasl.oauth import AbstractTokenProvider as Tokens

from ottla import Acl, Broker
from ottla.client.admin.users import set_password
from ottla.testing.security.client_configs import LOGIN, properties
from tests.security.sasl.test_oauthbearer import token

USER: Final = "alice"
PASSWORDS: Final = {"PLAIN": "by PLAIN", "SCRAM-SHA-256": "by SCRAM-SHA-256", "SCRAM-SHA-512": "by SCRAM-SHA-512"}
"""The user's password differs by mechanism, so a client that uses another mechanism than its configuration says is refused."""
OAUTHBEARER: Final = "OAUTHBEARER"
TOKEN_LIFETIME_S: Final = 600
ACLS: Final = (
    Acl(USER, "all", topic="orders"),
    Acl(USER, "read", group="billing"),
    Acl(USER, "write", transactional_id="checkout-1"),
    # kafkajs needs this permission for InitProducerId. Kafka has not required it since version 2.8.
    Acl(USER, "idempotent-write", cluster=True),
)


class Way(NamedTuple):
    """A value of ``security``, and with SASL a mechanism."""

    security: str
    mechanism: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, self))


WAYS: Final = (
    Way("SSL"),
    Way("mTLS"),
    *(Way(security, mechanism) for security in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in (*PASSWORDS, OAUTHBEARER)),
)


def started(security: str, settings: Mapping[str, str] | None = None) -> Broker:
    """Start a broker with the user `USER`, who has only the permissions of `ACLS`. Clients of SSL have no names, and may do
    everything."""
    given = dict(settings or {})
    if security == "SSL":
        return Broker(security=security, settings=given).start()
    if security == "mTLS":
        return Broker(security=security, users=[USER], acls=ACLS, settings=given).start()
    login = f"listener.name.{security.lower()}.oauthbearer.sasl.jaas.config"
    given |= {
        "sasl.enabled.mechanisms": ",".join((*PASSWORDS, OAUTHBEARER)),
        login: f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
    }
    return Broker(security=security, users={USER: PASSWORDS["PLAIN"]}, acls=ACLS, settings=given).start()


def prepare(broker: Broker, security: str) -> None:
    """Reset the broker, and create the topic and the passwords."""
    broker.reset()
    broker.create_topic("orders", 1)
    if security.startswith("SASL"):
        with broker.open_client() as client:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                set_password(client.brokers, USER, PASSWORDS[mechanism], [mechanism])


class Clients:
    """The clients of a broker that connect in one way. Documented programs use it as their ``broker``."""

    def __init__(self, broker: Broker, way: Way) -> None:
        self.broker = broker
        self._way = way

    def client_config(self, client: str, user: str = USER) -> dict[str, Any]:
        """Return a client's configuration, as `Broker.client_config` does, but also for OAUTHBEARER."""
        if not self._way.mechanism:
            return self.broker.client_config(client, None if self._way.security == "SSL" else user)
        if self._way.mechanism == OAUTHBEARER:
            return _with_token(client, self.broker.client_config(client, user, mechanism="PLAIN"))
        password = PASSWORDS[self._way.mechanism]
        return self.broker.client_config(client, user, mechanism=self._way.mechanism, password=password)

    def client_properties(self, directory: Path) -> Path:
        """Write the properties file of a Java client."""
        file = directory / "client.properties"
        file.write_text(properties(self.client_config("java")))
        return file


def _new_token() -> str:
    now = int(time.time())
    return token(sub=USER, iat=now - 5, exp=now + TOKEN_LIFETIME_S)


class _Tokens(Tokens):  # type: ignore[misc]  # kafka-python requires this base class
    def token(self) -> str:
        return _new_token()


class _AsynchronousTokens(AsynchronousTokens):  # type: ignore[misc]  # aiokafka requires this base class
    async def token(self) -> str:
        return _new_token()


def _with_token(client: str, config: dict[str, Any]) -> dict[str, Any]:
    """Replace the password of PLAIN by a token of OAUTHBEARER that has no signature."""
    if client == "java":
        login = f'{LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";'
        return config | {"sasl.mechanism": OAUTHBEARER, "sasl.jaas.config": login}
    if client == "confluent":
        kept = {name: value for name, value in config.items() if name not in ("sasl.username", "sasl.password")}
        return kept | {"sasl.mechanism": OAUTHBEARER, "oauth_cb": lambda _: (_new_token(), time.time() + TOKEN_LIFETIME_S)}
    if client in ("kafka-python", "aiokafka"):
        kept = {name: value for name, value in config.items() if not name.startswith("sasl_plain")}
        tokens = _Tokens() if client == "kafka-python" else _AsynchronousTokens()
        return kept | {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": tokens}
    mechanism = OAUTHBEARER.lower() if client == "kafkajs" else OAUTHBEARER
    return config | {"sasl": {"mechanism": mechanism, "token": _new_token()}}
