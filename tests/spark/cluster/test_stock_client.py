"""Kafka's setting names are translated to librdkafka's."""

from __future__ import annotations

from typing import Any

import pytest
import trustme
from confluent_kafka import Consumer

from ottla.client.security.client_config import Connecting
from ottla.spark.cluster.stock_client import settings_of
from tests.client.security.certificates import pem_of

SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"}


def settings(protocol: str, **options: Any) -> dict[str, Any]:
    given = {"bootstrap.servers": "h:1", "security.protocol": protocol, **options}
    return settings_of(Connecting.parse({f"kafka.{name}": value for name, value in given.items()}))


def test_plaintext_needs_only_the_bootstrap_servers() -> None:
    assert settings("PLAINTEXT") == {"bootstrap.servers": "h:1", "security.protocol": "plaintext"}


def test_user_name_and_password_become_librdkafka_settings() -> None:
    given = settings("SASL_PLAINTEXT", **SCRAM)
    assert (given["security.protocol"], given["sasl.username"], given["sasl.password"]) == ("sasl_plaintext", "u", "p")
    Consumer({**given, "group.id": "g", "log_level": 0}).close()


def test_pem_stores_become_librdkafka_settings() -> None:
    authority = trustme.CA()
    own = pem_of(authority.issue_cert("client"), "secret")
    stores = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.cert_pem.bytes().decode(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": own[own.index("-----BEGIN CERTIFICATE") :],
        "ssl.keystore.key": own[: own.index("-----BEGIN CERTIFICATE")],
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }
    given = settings("SSL", **stores)
    assert (given["ssl.endpoint.identification.algorithm"], given["ssl.key.password"]) == ("none", "secret")
    Consumer({**given, "group.id": "g", "log_level": 0}).close()


@pytest.mark.parametrize("expires_s", [None, 4_102_444_800.0])
def test_token_is_requested_when_librdkafka_needs_one(expires_s: float | None) -> None:
    def token() -> str | tuple[str, float]:
        return "abc" if expires_s is None else ("abc", expires_s)

    given = settings("SASL_PLAINTEXT", **{"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.function": token})
    text, until_s, _, extensions = given["oauth_cb"]("")
    assert (text, extensions) == ("abc", {})
    assert until_s == expires_s or expires_s is None
