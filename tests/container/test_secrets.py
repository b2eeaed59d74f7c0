"""Variables of apache/kafka for TLS and SASL become the same settings as in that image."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security import sasl_settings
from ottla.broker.config.sources import load
from ottla.container.image import prepared
from ottla.container.secrets import with_secrets

JAAS = """
// Users of the brokers.
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="a;{b}"
    user_alice="secret \\"quoted\\"";
  org.apache.kafka.common.security.scram.ScramLoginModule required;
};
other.KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="hush";
};
KafkaClient {
  org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="x";
};
"""
LISTENERS = {
    "KAFKA_LISTENERS": "SASL_SSL://:9093,OTHER://:9094,PLAINTEXT://:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "OTHER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-512",
}


def test_files_in_the_secrets_directory_set_store_locations_and_passwords(tmp_path: Path) -> None:
    for name in ("keystore_creds", "key_creds", "truststore_creds"):
        (tmp_path / name).write_text(f"of {name}\n")
    given = {
        "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.keystore.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "keystore_creds",
        "KAFKA_SSL_KEY_CREDENTIALS": "key_creds",
        "KAFKA_SSL_TRUSTSTORE_FILENAME": "kafka.truststore.p12",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "truststore_creds",
    }
    assert with_secrets(given, tmp_path) == {
        "KAFKA_SSL_KEYSTORE_LOCATION": str(tmp_path / "kafka.keystore.p12"),
        "KAFKA_SSL_KEYSTORE_PASSWORD": "of keystore_creds",
        "KAFKA_SSL_KEY_PASSWORD": "of key_creds",
        "KAFKA_SSL_TRUSTSTORE_LOCATION": str(tmp_path / "kafka.truststore.p12"),
        "KAFKA_SSL_TRUSTSTORE_PASSWORD": "of truststore_creds",
    }
    own = {"KAFKA_SSL_KEYSTORE_LOCATION": "/own.p12"}
    assert with_secrets({**own, "KAFKA_SSL_KEYSTORE_FILENAME": "x"}, tmp_path) == own


def test_login_modules_of_a_jaas_file_apply_to_each_sasl_listener(tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_text(JAAS)
    options = f"-Xmx1g -Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"
    serving = prepared({**LISTENERS, "KAFKA_OPTS": options}, {})
    config, ignored = load(None, {name: value for name, value in serving.items() if name != "KAFKA_OPTS"}, [], {})
    assert ignored == []
    assert sasl_settings(config, "SASL_SSL").modules["PLAIN"].users == {"alice": 'secret "quoted"'}
    assert list(sasl_settings(config, "SASL_SSL").modules) == ["PLAIN", "SCRAM-SHA-512"]
    # As in Kafka, the section with the listener's name takes precedence.
    assert sasl_settings(config, "OTHER").modules["PLAIN"].users == {"bob": "hush"}
    assert not any("listener.name.plaintext" in key for key in config.given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"KAFKA_SSL_KEY_CREDENTIALS": "none"}, "KAFKA_SSL_KEY_CREDENTIALS: cannot read /etc/kafka/secrets/none: No such file"),
        ({"KAFKA_OPTS": "-Djava.security.auth.login.config=/none"}, "KAFKA_OPTS: cannot read /none: No such file"),
    ],
)
def test_container_error_names_a_missing_secret_file(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        with_secrets(given)
