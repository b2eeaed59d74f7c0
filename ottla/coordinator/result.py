"""The result of a coordinator's command: records for the log, the response, and effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
K = TypeVar("K")


class LogRecord(msgspec.Struct, gc=False, frozen=True):
    """One record for the coordinator's log. A value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


Waiter = Callable[[Any], None]
"""A function that sends the response of a parked request."""


class Effect(msgspec.Struct, frozen=True):
    """A consequence of a decision besides its records, as a value. Each kind of effect is a subclass that only adds fields.

    A coordinator's ``apply`` carries out effects that change its in-memory state. The broker carries out all other effects, such as
    `AnswerMember`.
    """


class AnswerMember(Effect, frozen=True):
    """Send the response of a parked JoinGroup or SyncGroup."""

    waiter: Waiter
    answer: Any


class Result(msgspec.Struct, Generic[T]):
    """The decision of a command, as data. The broker carries it out in this order, and drops it if the append fails:

    1. Append ``records`` to the log.
    2. Replay ``records``.
    3. Carry out ``effects`` in order, but send the responses of parked requests last, so that all other changes are made before.
    """

    response: T
    records: list[LogRecord] = []
    effects: list[Effect] = []


RECORD_OVERHEAD_BYTES = 32
"""Maximum size of a record in a batch without its key and value."""


def decided_in_batches(
    keys: Iterable[K], decide: Callable[[K], Iterable[LogRecord]], max_batch_bytes: int
) -> Iterator[list[LogRecord]]:
    """Yield the records that ``decide`` returns for ``keys``, in lists that each fit into a batch of ``max_batch_bytes``
    (KAFKA-13099).

    A record that is larger than a batch is alone in its list. There is at least one list, and the last list may be empty.

    The caller appends and replays each list before it requests the next, and other work may run in between. So if a list does not
    have all records of a key, ``decide`` is called again for the key before the next list. If it then returns the same first
    record, the append was rejected, and the key is skipped.
    """
    piece: list[LogRecord] = []
    size_bytes = 0
    for key in keys:
        given: LogRecord | None = None
        while True:
            first: LogRecord | None = None
            is_whole = True
            for record in decide(key):
                length = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
                if record == given or (piece and size_bytes + length > max_batch_bytes):
                    is_whole = record == given
                    break
                first = first or record
                piece.append(record)
                size_bytes += length
            if is_whole:
                break
            yield piece
            piece, size_bytes, given = [], 0, first
    yield piece


def first_that_fit(keys: Iterable[K], records_of: Callable[[K], Iterable[LogRecord]], max_batch_bytes: int) -> list[K]:
    """Return the first keys whose records together fit into a batch of ``max_batch_bytes``, at least one key."""
    fitting: list[K] = []
    size_bytes = 0
    for key in keys:
        size_bytes += sum(len(r.key or b"") + len(r.value or b"") + RECORD_OVERHEAD_BYTES for r in records_of(key))
        if fitting and size_bytes > max_batch_bytes:
            break
        fitting.append(key)
    return fitting
