"""Spark's options for a connection have the same names as Kafka's client settings."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.security.client_config import Connecting, Pem, Sasl, Secret, TokenEndpoint
from ottla.client.security.tls import context_of

WHERE = {"kafka.bootstrap.servers": "one:9092,two:9093"}
IN_TLS = {**WHERE, "kafka.security.protocol": "SSL"}
WITH_SASL = {**WHERE, "kafka.security.protocol": "SASL_SSL"}
PASSWORD = 'pass-"word\\;'
JAAS = r'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="pass-\"word\\;";'
SCRAM = {**WITH_SASL, "kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": JAAS}
ENDPOINT = "kafka.sasl.oauthbearer.token.endpoint.url"
OAUTH = {**WITH_SASL, "kafka.sasl.mechanism": "OAUTHBEARER"}


def token() -> str:
    return "token"


def test_client_config_ignores_unrelated_options() -> None:
    options = {**WHERE, "topic": "out", "kafka.max.poll.records": "5", "kafka.compression.type": "lz4", "kafka.client.id": "me"}
    assert Connecting.parse(options) == Connecting("one:9092,two:9093")
    assert Connecting.parse(WHERE).protocol == "PLAINTEXT"


def test_security_protocol_selects_tls_and_sasl() -> None:
    assert Connecting.parse({**WHERE, "kafka.security.protocol": "plaintext"}).protocol == "PLAINTEXT"
    assert Connecting.parse(IN_TLS).protocol == "SSL"
    assert Connecting.parse(SCRAM).protocol == "SASL_SSL"
    assert Connecting.parse({**SCRAM, "kafka.security.protocol": "SASL_PLAINTEXT"}).protocol == "SASL_PLAINTEXT"


def test_sasl_user_is_configured_by_jaas_or_by_name_and_password() -> None:
    by_module = Connecting.parse(SCRAM)
    assert by_module.sasl == Sasl("SCRAM-SHA-512", "alice", Secret(PASSWORD))
    by_name = {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.username": "alice", "kafka.sasl.password": PASSWORD}
    assert Connecting.parse({**WITH_SASL, **by_name}) == by_module


def test_cipher_suites_of_client_configs_have_the_names_of_kafka() -> None:
    tls = Connecting.parse({**IN_TLS, "kafka.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_128_GCM_SHA256"}).tls
    assert tls is not None and tls.cipher_suites == ("TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256")
    unknown = Connecting.parse({**IN_TLS, "kafka.ssl.cipher.suites": "TLS_NO_SUCH"}).tls
    assert unknown is not None
    with pytest.raises(ClientError, match=r"kafka\.ssl\.cipher\.suites: TLS_NO_SUCH is not supported"):
        context_of(unknown)


def test_tls_stores_are_pem_files_or_inline_pem() -> None:
    stores = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
        "kafka.ssl.keystore.location": "/keys/me.pem",
        "kafka.ssl.key.password": "secret",
    }
    tls = Connecting.parse({**IN_TLS, **stores}).tls
    assert tls is not None
    assert tls.trusted is not None
    assert tls.trusted.text == Secret("-----BEGIN CERTIFICATE-----")
    assert tls.certificate == tls.key
    assert tls.key is not None
    assert tls.key.location == "/keys/me.pem"
    assert tls.key_password == Secret("secret")
    assert tls.checks_hostname


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", None])
def test_tls_stores_with_a_password_are_pkcs12(kind: str | None) -> None:
    """Java also reads PKCS12 if the store type is JKS, the default."""
    stores = {"kafka.ssl.truststore.location": "/ca.p12", "kafka.ssl.truststore.password": "hidden"}
    tls = Connecting.parse({**IN_TLS, **stores, "kafka.ssl.truststore.type": kind}).tls
    assert tls is not None
    assert tls.trusted == Pem("kafka.ssl.truststore.location", "/ca.p12", password=Secret("hidden"))


@pytest.mark.parametrize("word", ["", "none"])
def test_tls_host_names_are_verified_unless_disabled(word: str) -> None:
    tls = Connecting.parse({**IN_TLS, "kafka.ssl.endpoint.identification.algorithm": word}).tls
    assert tls is not None
    assert not tls.checks_hostname


def test_oauthbearer_tokens_are_configured_by_a_function_or_an_endpoint() -> None:
    for function in (token, "tests.spark.cluster.test_client_config:token"):
        assert Connecting.parse({**OAUTH, "kafka.sasl.oauthbearer.token.function": function}).sasl == Sasl(
            "OAUTHBEARER", token=function
        )
    module = 'OAuthBearerLoginModule required clientId="me" clientSecret="secret" scope="kafka";'
    parsed = Connecting.parse({**OAUTH, ENDPOINT: "https://idp/token", "kafka.sasl.jaas.config": module})
    assert parsed.sasl is not None
    assert parsed.sasl.token == TokenEndpoint("https://idp/token", "me", Secret("secret"), "kafka")


def test_client_config_accepts_options_of_java_clients() -> None:
    assert Connecting.parse({**WHERE, "kafka.ssl.protocol": "TLSv1.3"}) == Connecting(WHERE["kafka.bootstrap.servers"])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nowhere": ({}, "kafka.bootstrap.servers is missing"),
    "no port": ({"kafka.bootstrap.servers": "one"}, "kafka.bootstrap.servers: 'one' is not HOST:PORT"),
    "slip": (
        {**WHERE, "kafka.sasl.mechanisms": "PLAIN"},
        "unknown option kafka.sasl.mechanisms; did you mean kafka.sasl.mechanism?",
    ),
    "early slip": ({**WHERE, "kafka.securty.protocol": "SSL"}, "did you mean kafka.security.protocol?"),
    "no prefix": ({**WHERE, "security.protocol": "SSL"}, "give kafka.security.protocol"),
    "protocol": ({**WHERE, "kafka.security.protocol": "TLS"}, "kafka.security.protocol is 'TLS', but must be one of PLAINTEXT"),
    "unused": ({**WHERE, "kafka.ssl.truststore.location": "x"}, "kafka.security.protocol is PLAINTEXT, which does not use it"),
    "tls unused": (
        {**WHERE, "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.ssl.ca.pem": "x"},
        "SASL_PLAINTEXT, which does not use it: give SASL_SSL$",
    ),
    "sasl unused": ({**IN_TLS, "kafka.sasl.username": "x"}, "SSL, which does not use it: give SASL_SSL$"),
    "no mechanism": (WITH_SASL, "kafka.sasl.mechanism is missing"),
    "kerberos": ({**WITH_SASL, "kafka.sasl.mechanism": "GSSAPI"}, "'GSSAPI'; it must be one of PLAIN"),
    "kerberos' names": ({**WITH_SASL, "kafka.sasl.kerberos.service.name": "kafka"}, "Kerberos is not supported"),
    "nobody": ({**WITH_SASL, "kafka.sasl.mechanism": "PLAIN"}, "needs a user name and a password"),
    "other module": ({**SCRAM, "kafka.sasl.mechanism": "PLAIN"}, "has a ScramLoginModule, but .* needs a PlainLoginModule"),
    "no module": ({**SCRAM, "kafka.sasl.jaas.config": "alice"}, "kafka.sasl.jaas.config: Login module control flag not specified"),
    "twice": ({**SCRAM, "kafka.sasl.username": "bob"}, "exclude each other"),
    "no token": (OAUTH, "needs kafka.sasl.oauthbearer.token.function"),
    "not a function": ({**OAUTH, "kafka.sasl.oauthbearer.token.function": "token"}, "as in my.module:function"),
    "no client": ({**OAUTH, ENDPOINT: "https://idp/token"}, "needs clientId and clientSecret"),
    "no url": ({**OAUTH, ENDPOINT: "file:///token"}, "must begin with https:// or http://"),
    "token for scram": (
        {**SCRAM, "kafka.sasl.oauthbearer.token.function": "a:b"},
        "needs kafka.sasl.mechanism=OAUTHBEARER, but kafka.sasl.mechanism is SCRAM-SHA-512",
    ),
    "store type": ({**IN_TLS, "kafka.ssl.truststore.type": "BKS"}, "kafka.ssl.truststore.type is 'BKS', but must be PEM or PKCS12"),
    "store's password": (
        {**IN_TLS, "kafka.ssl.truststore.password": "x", "kafka.ssl.truststore.type": "pem"},
        "a PEM store has no password",
    ),
    "no store's password": (
        {**IN_TLS, "kafka.ssl.keystore.location": "x", "kafka.ssl.keystore.type": "PKCS12"},
        "kafka.ssl.keystore.type is PKCS12, but kafka.ssl.keystore.password is missing",
    ),
    "certificate alone": ({**IN_TLS, "kafka.ssl.keystore.certificate.chain": "x"}, "is given, but not its key"),
    "two stores": ({**IN_TLS, "kafka.ssl.ca.location": "x", "kafka.ssl.truststore.location": "y"}, "exclude each other"),
    "hostnames": ({**IN_TLS, "kafka.ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
    "old tls": ({**IN_TLS, "kafka.ssl.enabled.protocols": "TLSv1.1"}, "must be one or more of TLSv1.2 and TLSv1.3"),
    "java's class": ({**IN_TLS, "kafka.ssl.engine.factory.class": "x"}, "it names a class of Java"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_client_config_refuses_contradicting_options_by_name(name: str) -> None:
    options, line = REFUSED[name]
    with pytest.raises(ClientError, match=line) as refused:
        Connecting.parse(options)
    assert "pass-" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_client_config_hides_secrets_in_text_and_keeps_them_when_pickled() -> None:
    stores = {"kafka.ssl.keystore.key": "PRIVATE", "kafka.ssl.keystore.certificate.chain": "x", "kafka.ssl.key.password": "hidden"}
    connecting = Connecting.parse({**SCRAM, **stores})
    shown = f"{connecting} {connecting!r} {[connecting]}"
    assert "alice" in shown
    for secret in ("pass-", "PRIVATE", "hidden"):
        assert secret not in shown
    assert pickle.loads(pickle.dumps(connecting)) == connecting
