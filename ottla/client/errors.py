"""What the client raises. Each text is one line that says what happened and what to do about it."""

from __future__ import annotations

from typing import Final

from ottla.protocol.errors import Code, clipped

RETRIABLE: Final = frozenset(
    {
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNSTABLE_OFFSET_COMMIT,
        Code.CONCURRENT_TRANSACTIONS,
        Code.BROKER_NOT_AVAILABLE,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.NOT_CONTROLLER,
    }
)
"""Codes that pass by themselves: leaders and coordinators move, and load what they need."""


class ClientError(Exception):
    """What a person is told in one line."""


class Unreachable(ClientError):
    """No broker takes a connection."""


class NotKafka(ClientError):
    """Something takes connections and does not answer as Kafka does."""


class TimedOut(ClientError):
    """No answer, or no final one, in the time that the client was given."""


class NotServed(ClientError):
    """The broker is too old, or too new, for a request."""


class TooMuch(ClientError):
    """More than one of the client's limits allows."""


class KafkaAnswered(ClientError):
    """The broker answered with an error.

    ``number`` is the error's number. ``code`` is its `Code`, and UNKNOWN_SERVER_ERROR for a number that ottla does not know.
    """

    def __init__(self, what: str, number: int, message: str | None = None) -> None:
        self.number = number
        self.code = code_of(number)
        self.message = clipped(message) if message else None
        detail = f"{name_of(number)} ({' '.join(self.message.split())})" if self.message else name_of(number)
        super().__init__(f"{what}: {detail}")


class UnknownTopic(KafkaAnswered):
    """No broker knows of the topic or the partition. A leader that has not heard of a new one yet answers plainly by the code."""


def code_of(number: int) -> Code:
    try:
        return Code(number)
    except ValueError:
        return Code.UNKNOWN_SERVER_ERROR


def name_of(number: int) -> str:
    """Kafka's name of an error."""
    try:
        return Code(number).name
    except ValueError:
        return f"error {number}"


def check(what: str, number: int, message: str | None = None) -> None:
    """Raises `KafkaAnswered` for any code but NONE."""
    if number:
        raise KafkaAnswered(what, number, message)
