"""Lists, adds and removes the users of SCRAM (KIP-554)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import check
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.security.sasl.scram import HASHES, MAX_ITERATIONS, MIN_ITERATIONS, NUMBERS, salt_of

MECHANISMS: Final = tuple(NUMBERS)
SEED_BYTES: Final = 32
"""Number of random bytes from which a salt is derived."""
_NAMES: Final = {number: name for name, number in NUMBERS.items()}


@dataclass(slots=True, frozen=True)
class ScramUser:
    """A SCRAM user, with the number of iterations by mechanism."""

    name: str
    iterations: Mapping[str, int]


def list_users(brokers: BrokerConnections, names: Sequence[str] = ()) -> list[ScramUser]:
    """Return the named users, by default all, ordered by name. Raises `KafkaAnswered`, also for a name that is unknown."""
    what = "asking for the users"
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)

    def attempt() -> list[ScramUser]:
        answer = brokers.ask(brokers.anyone(), request)
        check(what, answer.error_code, answer.error_message)
        users = []
        for result in answer.results:
            check(f"user {result.user!r}", result.error_code, result.error_message)
            iterations = {_NAMES.get(info.mechanism, str(info.mechanism)): info.iterations for info in result.credential_infos}
            users.append(ScramUser(result.user, iterations))
        return sorted(users, key=lambda user: user.name)

    return brokers.until_final(what, attempt)


def set_password(
    brokers: BrokerConnections,
    name: str,
    password: str,
    mechanisms: Iterable[str] = MECHANISMS,
    iterations: int = MIN_ITERATIONS,
) -> None:
    """Add a user, or change the user's password. The brokers get salted hashes, never the password. Raises `KafkaAnswered`."""
    assert MIN_ITERATIONS <= iterations <= MAX_ITERATIONS
    made = [_upsertion(name, password, mechanism, iterations) for mechanism in mechanisms]
    # A request may change only one credential of a user. The slow hashes are computed before the first request, so that other
    # clients' requests seldom come between these requests.
    for upsertion in made:
        _alter(brokers, f"adding user {name!r}", AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def _upsertion(name: str, password: str, mechanism: str, iterations: int) -> ScramCredentialUpsertion:
    salt = salt_of(os.urandom(SEED_BYTES))
    # Kafka hashes the UTF-8 bytes of a password without normalization (ScramFormatter.normalize).
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=NUMBERS[mechanism], iterations=iterations, salt=salt, salted_password=salted
    )


def remove_user(brokers: BrokerConnections, name: str, mechanisms: Iterable[str] = ()) -> None:
    """Remove a user's credentials, by default all. Raises `KafkaAnswered`, also for a user that is unknown."""
    (user,) = list_users(brokers, [name])
    for mechanism in tuple(mechanisms) or user.iterations:
        removed = ScramCredentialDeletion(name=name, mechanism=NUMBERS[mechanism])
        _alter(brokers, f"removing user {name!r}", AlterUserScramCredentialsRequest(deletions=[removed]))


def _alter(brokers: BrokerConnections, what: str, request: AlterUserScramCredentialsRequest) -> None:
    def attempt() -> None:
        for result in brokers.ask(brokers.controller(), request).results:
            check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt, also=(Code.NOT_CONTROLLER,))
