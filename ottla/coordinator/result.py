"""What a coordinator's command gives back."""

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
"""Takes the answer that a parked request waits for."""


class Effect(msgspec.Struct, frozen=True):
    """One thing that follows from a decision beside its records, as a value: each kind is a subclass that only adds fields.

    Some change what a coordinator keeps in memory and not in its log; the coordinator's own ``apply`` makes these changes. The
    others reach beyond it, such as `AnswerMember`, and the broker carries them out.
    """


class AnswerMember(Effect, frozen=True):
    """A parked request of a group's member gets its answer."""

    waiter: Waiter
    answer: Any


class Result(msgspec.Struct, Generic[T]):
    """What a command has decided, as data. Whoever carries it out goes in this order, and drops all of it where the append fails:

    1. ``records`` are appended,
    2. ``records`` are replayed,
    3. ``effects`` are carried out in order, but answers last: who is answered finds every other change made.
    """

    response: T
    records: list[LogRecord] = []
    effects: list[Effect] = []


RECORD_OVERHEAD_BYTES = 32
"""At most what a record takes in a batch beside its key and value."""


def decided_in_batches(
    keys: Iterable[K], decide: Callable[[K], Iterable[LogRecord]], max_batch_bytes: int
) -> Iterator[list[LogRecord]]:
    """What a sweep decides, key by key, in pieces that each fit into a batch of this size (KAFKA-13099).

    A record that is larger alone stands alone. There is at least one piece, and the last may be empty.

    Whoever takes a piece carries it out before asking for the next, and lets others work in between. So nothing that was decided
    before a piece was given out is used after it: ``decide`` is asked again, of a key too that did not fit whole. A key whose
    records were refused is passed over until the next sweep.
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
    """The first keys whose records fit into a batch of this size together; the first of all also where it does not."""
    fitting: list[K] = []
    size_bytes = 0
    for key in keys:
        size_bytes += sum(len(r.key or b"") + len(r.value or b"") + RECORD_OVERHEAD_BYTES for r in records_of(key))
        if fitting and size_bytes > max_batch_bytes:
            break
        fitting.append(key)
    return fitting
