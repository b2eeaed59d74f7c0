"""Creates SCRAM users when a broker or controller starts, before it accepts requests. Existing credentials stay unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

import structlog

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.first_user import FirstUser
from ottla.broker.loop.env import Randomness
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import KafkaError

log = structlog.get_logger("broker")


class Ports(Protocol):
    cluster: ClusterCommands
    randomness: Randomness


def create_first_users(ports: Ports, users: Iterable[FirstUser]) -> None:
    """Create each credential that does not exist. Raises `ConfigError` for a user that cannot be created."""
    for user in users:
        # Imported here, because most brokers create no user.
        from ottla.security.sasl.scram import HASHES, MIN_ITERATIONS, NUMBERS, salt_of

        if ports.cluster.state.is_member:
            raise ConfigError(
                f"--user {user.name}: only the controller creates users; start the controller with this option,"
                " or use AlterUserScramCredentials"
            )
        known = ports.cluster.state.credentials.by_user.get(user.name, {})
        for mechanism, number in NUMBERS.items():
            if number in known:
                log.info("first_user_skipped", user=user.name, mechanism=mechanism)
                continue
            salt = salt_of(ports.randomness.random_uuid() + ports.randomness.random_uuid())
            # As Kafka does, hash a password's UTF-8 without normalising it (ScramFormatter.normalize).
            salted = hashlib.pbkdf2_hmac(HASHES[mechanism], user.password.encode(), salt, MIN_ITERATIONS)
            try:
                ports.cluster.set_credential(user.name, number, salt, salted, MIN_ITERATIONS)
            except KafkaError as error:
                raise ConfigError(f"--user {user.name}: {error.message or error.code.name}") from None
