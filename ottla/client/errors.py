"""The client's exceptions. Each message is one line: what happened and what to do."""

from __future__ import annotations

from typing import Final

from ottla.protocol.errors import clipped
from ottla.protocol.remedies import code_of, name_of


class ClientError(Exception):
    """The base class of the client's exceptions."""


class Unreachable(ClientError):
    """No broker accepts a connection."""


class NotKafka(ClientError):
    """The server accepts connections, but does not respond as Kafka does."""


class ListenerMismatch(ClientError):
    """The listener uses another security protocol than the client's settings."""


class TimedOut(ClientError):
    """The final response did not arrive within the timeout."""


class UnsupportedRequest(ClientError):
    """The broker is too old or too new for a request."""


class TooMuch(ClientError):
    """The result exceeds one of the client's limits."""


class BatchTooLarge(TooMuch):
    """The decompressed batch with the offsets [``first_offset``, ``next_offset``) of a partition exceeds the rest of an
    `Allowance`.

    ``is_alone`` is true if the batch exceeds even an unused allowance, so that reading it again cannot succeed.
    """

    def __init__(self, text: str, *, partition: int, first_offset: int, next_offset: int, is_alone: bool) -> None:
        super().__init__(text)
        self.partition = partition
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.is_alone = is_alone


class KafkaAnswered(ClientError):
    """The broker has responded with an error.

    ``number`` is the error code; ``code`` is its `Code`, or UNKNOWN_SERVER_ERROR for a number that ottla does not know.
    """

    def __init__(self, what: str, number: int, message: str | None = None) -> None:
        self.what = what
        self.number = number
        self.code = code_of(number)
        self.message = clipped(message) if message else None
        detail = f"{name_of(number)} ({' '.join(self.message.split())})" if self.message else name_of(number)
        super().__init__(f"{what}: {detail}")

    def __reduce__(self) -> tuple[type[KafkaAnswered], tuple[str, int, str | None]]:
        # Spark pickles the error of a task to send it to the driver; by default only the message would be pickled.
        return type(self), (self.what, self.number, self.message)


class UnknownTopic(KafkaAnswered):
    """The topic or partition does not exist, according to Metadata."""


NO_RESULT: Final = (KafkaAnswered, Unreachable, TimedOut, UnsupportedRequest)
"""Errors after which a value that is optional is left out: a broker refuses the request, does not answer or does not support it."""


def check(what: str, number: int, message: str | None = None) -> None:
    """Raise `KafkaAnswered` for every code except NONE."""
    if number:
        raise KafkaAnswered(what, number, message)
