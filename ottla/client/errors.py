"""What the client raises. Each text is one line that says what happened and what to do about it."""

from __future__ import annotations

from ottla.protocol.errors import clipped
from ottla.protocol.remedies import code_of, name_of


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


def check(what: str, number: int, message: str | None = None) -> None:
    """Raises `KafkaAnswered` for any code but NONE."""
    if number:
        raise KafkaAnswered(what, number, message)
