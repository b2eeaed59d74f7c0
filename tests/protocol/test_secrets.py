"""The names of secret configs, compared with the types of all configs."""

from __future__ import annotations

from ottla.broker.config.definitions import broker_definitions, topic_definitions
from ottla.broker.config.groups import group_definitions
from ottla.protocol.secrets import is_secret_config

CERTIFICATES = {"ssl.keystore.certificate.chain", "ssl.truststore.certificates"}
"""Configs that have the type PASSWORD in Kafka, although certificates are public."""


def test_configs_of_type_password_are_secret_and_others_are_not() -> None:
    definitions = broker_definitions() | topic_definitions() | group_definitions()
    passwords = {name for name, definition in definitions.items() if definition.type == "PASSWORD"}
    assert {name for name in definitions if is_secret_config(name)} == passwords - CERTIFICATES
    assert passwords >= CERTIFICATES


def test_configs_with_the_prefix_of_a_listener_are_secret() -> None:
    assert is_secret_config("listener.name.in.scram-sha-256.sasl.jaas.config")
    assert not is_secret_config("delegation.token.max.lifetime.ms")
    assert not is_secret_config("sasl.oauthbearer.token.endpoint.url")
