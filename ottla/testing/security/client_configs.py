"""The settings with which each client library connects to the brokers of an `ottla.Broker` or `ottla.Cluster`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ottla.testing.security.tokens import aiokafka_provider, kafka_python_provider, unsecured_token

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
LOGIN: Final = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """The security of one client. ``trusted`` is a PEM file with the authority, ``own`` a PEM file with the client's key and
    certificate."""

    bootstrap: str
    protocol: str
    trusted: Path | None = None
    own: Path | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    is_delegated: bool = False
    """Whether ``user`` and ``password`` are the id and the HMAC of a delegation token."""

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def has_token(self) -> bool:
        """Whether the client authenticates by an unsecured token, and has no password."""
        return self.mechanism == OAUTHBEARER


def java(client: ClientCredentials) -> dict[str, Any]:
    """The properties of Kafka's own clients and tools, and of ``--command-config``."""
    settings: dict[str, Any] = {"bootstrap.servers": client.bootstrap, "security.protocol": client.protocol}
    if client.trusted is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(client.trusted)}
    if client.own is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(client.own)}
    if client.has_sasl:
        settings |= {"sasl.mechanism": client.mechanism, "sasl.jaas.config": jaas(client)}
    return settings


def jaas(client: ClientCredentials) -> str:
    """The value of ``sasl.jaas.config``."""
    if client.has_token:
        module = "oauthbearer.OAuthBearerLoginModule"
        return f"{LOGIN}.{module} required unsecuredLoginStringClaim_sub={quoted(client.user)};"
    token = ' tokenauth="true"' if client.is_delegated else ""
    module = "plain.PlainLoginModule" if client.mechanism == PLAIN else "scram.ScramLoginModule"
    return f"{LOGIN}.{module} required username={quoted(client.user)} password={quoted(client.password)}{token};"


def quoted(text: str) -> str:
    """Quote a text for JAAS."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def librdkafka(client: ClientCredentials) -> dict[str, Any]:
    """The properties of librdkafka, for confluent-kafka and the library's other bindings."""
    settings: dict[str, Any] = {"bootstrap.servers": client.bootstrap, "security.protocol": client.protocol}
    if client.trusted is not None:
        settings["ssl.ca.location"] = str(client.trusted)
    if client.own is not None:
        settings |= {"ssl.certificate.location": str(client.own), "ssl.key.location": str(client.own)}
    if client.has_token:
        # librdkafka splits this value at spaces, which a name can therefore not contain.
        settings |= {"sasl.mechanism": OAUTHBEARER, "enable.sasl.oauthbearer.unsecure.jwt": True}
        settings["sasl.oauthbearer.config"] = f"principal={client.user}"
    elif client.has_sasl:
        settings |= {"sasl.mechanism": client.mechanism, "sasl.username": client.user, "sasl.password": client.password}
    return settings


def kafka_python(client: ClientCredentials) -> dict[str, Any]:
    """The keyword arguments of kafka-python's classes."""
    settings = _of_python(client, kafka_python_provider)
    if client.trusted is not None:
        settings["ssl_cafile"] = str(client.trusted)
    if client.own is not None:
        settings |= {"ssl_certfile": str(client.own), "ssl_keyfile": str(client.own)}
    return settings


def aiokafka(client: ClientCredentials) -> dict[str, Any]:
    """The keyword arguments of aiokafka's classes."""
    settings = _of_python(client, aiokafka_provider)
    if client.trusted is not None:
        context = settings["ssl_context"] = ssl.create_default_context(cafile=str(client.trusted))
        if client.own is not None:
            context.load_cert_chain(client.own)
    return settings


def _of_python(client: ClientCredentials, token_provider: Callable[[str], Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": client.bootstrap, "security_protocol": client.protocol}
    if client.has_token:
        settings |= {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": token_provider(client.user)}
    elif client.has_sasl:
        settings |= {
            "sasl_mechanism": client.mechanism,
            "sasl_plain_username": client.user,
            "sasl_plain_password": client.password,
        }
    return settings


def kafkajs(client: ClientCredentials) -> dict[str, Any]:
    """The argument of kafkajs' class Kafka, in JSON's types."""
    settings: dict[str, Any] = {"brokers": client.bootstrap.split(",")}
    if client.trusted is not None:
        settings["ssl"] = {"ca": [client.trusted.read_text()]}
        if client.own is not None:
            settings["ssl"] |= {"key": client.own.read_text(), "cert": client.own.read_text()}
    if client.has_token:
        settings["sasl"] = {"mechanism": client.mechanism.lower(), "token": unsecured_token(client.user)}
    elif client.has_sasl:
        settings["sasl"] = {"mechanism": client.mechanism.lower(), "username": client.user, "password": client.password}
    return settings


def go(client: ClientCredentials) -> dict[str, Any]:
    """The values for franz-go's options and for the fields of sarama's Config, in JSON's types."""
    settings: dict[str, Any] = {"seeds": client.bootstrap.split(",")}
    if client.trusted is not None:
        settings["tls"] = {"ca": str(client.trusted), "own": None if client.own is None else str(client.own)}
    if client.has_token:
        settings["sasl"] = {"mechanism": client.mechanism, "token": unsecured_token(client.user)}
    elif client.has_sasl:
        settings["sasl"] = {"mechanism": client.mechanism, "user": client.user, "password": client.password}
        if client.is_delegated:
            settings["sasl"]["isToken"] = True
    return settings


CLIENTS: Final[Mapping[str, Callable[[ClientCredentials], dict[str, Any]]]] = MappingProxyType(
    {
        "java": java,
        "confluent": librdkafka,
        "kafka-python": kafka_python,
        "aiokafka": aiokafka,
        "franz-go": go,
        "sarama": go,
        "kafkajs": kafkajs,
    }
)
"""Functions that return the settings, by client library."""
WITH_DELEGATION_TOKENS: Final = ("java", "franz-go")
"""The client libraries that send ``tokenauth=true``, without which a token's id is an unknown user (KIP-48)."""


def properties(settings: Mapping[str, str]) -> str:
    """Format a Java properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "".join(c if " " <= c <= "~" else _unicode_escape(c) for c in text)


def _unicode_escape(character: str) -> str:
    data = character.encode("utf-16-be")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))
