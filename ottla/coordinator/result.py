"""The result of a coordinator's command: records for the log, the response, and effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
K = TypeVar("K")


class LogRecord(msgspec.Struct, gc=False, frozen=True):
    """One record for the coordinator's log; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None


Waiter = Callable[[Any], None]
"""Called with the answer that a parked request waits for."""


class Effect(msgspec.Struct, frozen=True):
    """A consequence of a decision besides its records, as a value. Each kind of effect is a subclass that only adds fields.

    Some effects change state that a coordinator keeps in memory and not in its log: the coordinator's own ``apply`` carries them
    out. The other effects, such as `AnswerMember`, concern other parts of the broker, and the broker carries them out.
    """


class AnswerMember(Effect, frozen=True):
    """Answer a parked request of a group's member."""

    waiter: Waiter
    answer: Any


class Result(msgspec.Struct, Generic[T]):
    """The decision of a command, as data. The broker carries a result out in this order, and drops it where the append fails:

    1. It appends ``records`` to the log.
    2. It replays ``records``.
    3. It carries out ``effects`` in order, but answers to parked requests last: a client that gets its answer finds every other
       change made.
    """

    response: T
    records: list[LogRecord] = []
    effects: list[Effect] = []


RECORD_OVERHEAD_BYTES = 32
"""The most bytes that a record takes in a batch besides its key and value."""


def decided_in_batches(
    keys: Iterable[K], decide: Callable[[K], Iterable[LogRecord]], max_batch_bytes: int
) -> Iterator[list[LogRecord]]:
    """The records that a sweep decides, key by key, in pieces that each fit into a batch of ``max_batch_bytes`` (KAFKA-13099).

    A record that is larger than a batch is a piece of its own. There is at least one piece, and the last piece may be empty.

    The caller appends and replays each piece before it asks for the next, and other work may run in between. So no decision from
    before a piece is used after it: ``decide`` is called again, also for a key of which some records did not fit into the piece. If
    ``decide`` then returns the same first record again, the append was refused, and the key is skipped until the next sweep.
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
    """The first keys whose records together fit into a batch of ``max_batch_bytes``. The very first key is always included."""
    fitting: list[K] = []
    size_bytes = 0
    for key in keys:
        size_bytes += sum(len(r.key or b"") + len(r.value or b"") + RECORD_OVERHEAD_BYTES for r in records_of(key))
        if fitting and size_bytes > max_batch_bytes:
            break
        fitting.append(key)
    return fitting
