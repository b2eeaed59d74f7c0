"""SCRAM credentials of users (KIP-554), with which SASL listeners authenticate clients.

As in org.apache.kafka.controller.ScramControlManager, only two keys are stored, not the salted password from which they are
derived.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import remove_user_scram_credential_record as removal_record
from ottla.protocol.messages import user_scram_credential_record as credential_record

HASHES = {1: "sha256", 2: "sha512"}
"""Mechanism -> hash function (org.apache.kafka.clients.admin.ScramMechanism)."""
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384
MAX_SALT_BYTES = 1_000
MAX_SALTED_PASSWORD_BYTES = 1_000
"""Maximum length of a salted password. A client that follows SCRAM sends the output of the hash function, 32 or 64 bytes."""
MAX_NAME_CHARACTERS = 1_000
"""Maximum length of the name of a user with credentials. Kafka allows the longest string, 32,767 characters."""
MAX_USERS = 10_000
"""Maximum number of users with credentials. Kafka only limits one operation to 10,000 records, with the same error code."""


class LoggedCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A user's credential for one mechanism, with which a server checks the user's password (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramCredentials:
    """All credentials, by user and mechanism."""

    __slots__ = ("by_user",)

    def __init__(self) -> None:
        self.by_user: dict[str, dict[int, LoggedCredential]] = {}

    def set(self, name: str, mechanism: int, salt: bytes, salted_password: bytes, iterations: int) -> Result[None]:
        """Set a user's credential for one mechanism.

        Raises UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, or POLICY_VIOLATION for too many users or a long name.
        """
        _check_user(name, mechanism)
        if iterations < MIN_ITERATIONS:
            raise KafkaError(Code.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if iterations > MAX_ITERATIONS:
            raise KafkaError(Code.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not salted_password:
            raise KafkaError(Code.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")
        if len(salt) > MAX_SALT_BYTES:
            raise KafkaError(Code.UNACCEPTABLE_CREDENTIAL, f"Salt must not be longer than {MAX_SALT_BYTES} bytes")
        if len(salted_password) > MAX_SALTED_PASSWORD_BYTES:
            reason = f"Salted password must not be longer than {MAX_SALTED_PASSWORD_BYTES} bytes"
            raise KafkaError(Code.UNACCEPTABLE_CREDENTIAL, reason)
        if len(name) > MAX_NAME_CHARACTERS:
            raise KafkaError(Code.POLICY_VIOLATION, f"a user name has at most {MAX_NAME_CHARACTERS} characters")
        if name not in self.by_user and len(self.by_user) >= MAX_USERS:
            raise KafkaError(Code.POLICY_VIOLATION, f"at most {MAX_USERS} users with credentials are allowed; delete some first")
        function = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", function)
        credential = LoggedCredential(
            salt=bytes(salt),
            stored_key=hashlib.new(function, client_key).digest(),
            server_key=hmac.digest(salted_password, b"Server Key", function),
            iterations=iterations,
        )
        return Result(None, [_record(name, mechanism, credential)])

    def remove(self, name: str, mechanism: int) -> Result[None]:
        """Remove a user's credential. Raises UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM or RESOURCE_NOT_FOUND."""
        _check_user(name, mechanism)
        if mechanism not in self.by_user.get(name, ()):
            raise KafkaError(Code.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        message = removal_record.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
        return Result(None, [metadata_record(removal_record, message)])

    def replay(self, message: Any) -> None:
        self.by_user.setdefault(message.name, {})[message.mechanism] = LoggedCredential(
            salt=bytes(message.salt),
            stored_key=bytes(message.stored_key),
            server_key=bytes(message.server_key),
            iterations=message.iterations,
        )

    def replay_removal(self, message: Any) -> None:
        credentials = self.by_user.get(message.name, {})
        credentials.pop(message.mechanism, None)
        if not credentials:
            self.by_user.pop(message.name, None)

    def snapshot(self) -> list[LogRecord]:
        """Return records that restore all credentials."""
        return [_record(name, how, credential) for name, of_user in self.by_user.items() for how, credential in of_user.items()]


def _record(name: str, mechanism: int, credential: LoggedCredential) -> LogRecord:
    message = credential_record.UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
    return metadata_record(credential_record, message)


def _check_user(name: str, mechanism: int) -> None:
    if not name:
        raise KafkaError(Code.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in HASHES:
        raise KafkaError(Code.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
