"""Records of `__cluster_metadata` that only Apache Kafka writes are decoded by their schemas."""

from __future__ import annotations

import pytest

from ottla.client.records import internal_topics
from ottla.client.records.internal_topics import read
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages import config_record, user_scram_credential_record
from ottla.protocol.secrets import HIDDEN

SECRET = b"planted secret"
PASSPHRASE = "sasl.oauthbearer.assertion.private.key.passphrase"
OF_NO_TYPE = {6, 13, 16}
"""Record type numbers below 29 that Apache Kafka 4.4.0 does not use."""


def test_every_metadata_record_type_of_kafka_is_known() -> None:
    assert set(range(29)) - set(internal_topics._metadata_kinds()) == OF_NO_TYPE


@pytest.mark.parametrize(
    ("value", "type_name", "fields"),
    [
        (b"\1\x17\0\1\0\x12\x12Bootstrap records", "BeginTransactionRecord", {"name": "Bootstrap records"}),
        (b"\1\x18\0\0", "EndTransactionRecord", {}),
        (b"\1\x14\0\0", "NoOpRecord", {}),
    ],
)
def test_metadata_records_written_by_kafka_are_decoded(value: bytes, type_name: str, fields: dict[str, str]) -> None:
    assert read(METADATA_TOPIC, None, value) == {"type": type_name, "value": fields}


def test_unknown_metadata_record_type_is_an_error() -> None:
    with pytest.raises(DecodeError, match="unknown metadata record type 99"):
        read(METADATA_TOPIC, None, b"\1\x63\0\0")


@pytest.mark.parametrize(
    "record",
    [
        metadata_record(
            user_scram_credential_record,
            user_scram_credential_record.UserScramCredentialRecord(
                name="alice", mechanism=1, salt=SECRET, stored_key=SECRET, server_key=SECRET, iterations=4_096
            ),
        ),
        *(
            metadata_record(
                config_record,
                config_record.ConfigRecord(resource_type=4, resource_name="1", name=name, value=SECRET.decode()),
            )
            for name in ("listener.name.x.ssl.keystore.password", "listener.name.x.ssl.keystore.key", PASSPHRASE)
        ),
    ],
)
def test_secrets_in_metadata_records_are_hidden(record: LogRecord) -> None:
    """Dumps are attached to bug reports. From stored keys a password can be guessed."""
    said = read(METADATA_TOPIC, None, record.value)
    assert said is not None and HIDDEN in said["value"].values()
    assert SECRET.decode() not in repr(said)


@pytest.mark.parametrize("name", ["retention.ms", "delegation.token.expiry.time.ms"])
def test_other_configs_in_metadata_records_are_shown(name: str) -> None:
    record = metadata_record(config_record, config_record.ConfigRecord(resource_name="t", name=name, value="7"))
    said = read(METADATA_TOPIC, None, record.value)
    assert said is not None and said["value"]["value"] == "7"
