"""A broker of ottla, and one of Apache Kafka, with the same users, with and without a secret key of delegation tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.wire.secured import LOGIN, SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

PASSWORD = "secret"
USERS = ("admin", "alice", "bob", "carol", "dave", "eve")
PASSWORDS = dict.fromkeys(USERS, PASSWORD)
_OF = "listener.name.sasl_plaintext"
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f"{_OF}.plain.sasl.jaas.config": (
        f"{LOGIN}.plain.PlainLoginModule required " + " ".join(f'user_{user}="{PASSWORD}"' for user in USERS) + ";"
    ),
    f"{_OF}.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    f"{_OF}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
WITH_KEY = {"delegation.token.secret.key": "the key of the cluster", "delegation.token.expiry.check.interval.ms": "300"}


class Addresses(NamedTuple):
    plain: str
    secured: str


@contextmanager
def ottla(directory: Path, *, has_key: bool) -> Iterator[Addresses]:
    """Run a broker with the data in ``directory/data``."""
    directory.mkdir(exist_ok=True)
    given = {**SETTINGS, **(WITH_KEY if has_key else {}), "listeners": "PLAINTEXT://localhost:0,SASL_PLAINTEXT://localhost:0"}
    broker = SecuredBroker(directory, given)
    try:
        yield Addresses(broker.listening["PLAINTEXT"], broker.listening["SASL_PLAINTEXT"])
    finally:
        broker.close()
    assert not [line for line in broker.logged() if line["level"] in ("error", "critical")]


@contextmanager
def kafka(directory: Path, *, has_key: bool, log_dir: Path | None = None) -> Iterator[Addresses]:
    port = free_port()
    given = {**SETTINGS, **(WITH_KEY if has_key else {})}
    made = ApacheKafka(directory, settings=given, listeners={"SASL_PLAINTEXT": port}, log_dir=log_dir)
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        yield Addresses(made.bootstrap, f"127.0.0.1:{port}")
    finally:
        made.stop()
