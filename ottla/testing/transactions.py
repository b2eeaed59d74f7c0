"""`Transaction`: a ``with`` block that commits, or aborts after an exception."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.control.argument_types import checks_argument_types

if TYPE_CHECKING:
    from ottla.client.records.producing import WrittenRecord
    from ottla.client.records.transactional_producer import TransactionalProducer
    from ottla.testing.cluster_queries import Questions
    from ottla.testing.serialization import RecordHeaders, Serialized


@checks_argument_types
class Transaction:
    """A transaction with its own producer. `ottla.Broker.transaction` creates it.

    Without a ``with`` block `begin` begins the transaction, and it stays open until `commit` or `abort`, its timeout, or the next
    producer of the same id.

    A transaction belongs to the process that created it. In a forked child its producer would repeat the parent's sequence numbers,
    and the broker would acknowledge the child's records as duplicates without writing them.
    """

    def __init__(self, questions: Questions, transactional_id: str | None, timeout_s: float) -> None:
        self._questions = questions
        self._timeout_s = timeout_s
        self._producer: TransactionalProducer | None = None
        self._is_open = False
        self._process_id = os.getpid()
        self.transactional_id = transactional_id or f"ottla-{uuid.uuid4().hex[:12]}"

    def __repr__(self) -> str:
        if self._process_id != os.getpid():
            return f"<ottla.Transaction {self.transactional_id!r} of process {self._process_id}>"
        return f"<ottla.Transaction {self.transactional_id!r} {'open' if self.is_open else 'not open'}>"

    @property
    def is_open(self) -> bool:
        self._check_process()
        return self._is_open

    def begin(self) -> Self:
        """Begin the transaction. This and the following methods raise `ottla.client.ClientError`."""
        from ottla.client.records.transactional_producer import TransactionalProducer

        if self.is_open:
            raise RuntimeError(f"the transaction of {self.transactional_id!r} is open; commit or abort it first")
        with self._questions.cluster() as client:
            timeout_ms = round(1_000 * self._timeout_s)
            self._producer = TransactionalProducer(client.brokers, self.transactional_id, timeout_ms)
        self._is_open = True
        return self

    def produce(
        self,
        topic: str,
        values: Any,
        *,
        key: Any = None,
        headers: RecordHeaders | None = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        serializer: Callable[[Any], Serialized] | None = None,
    ) -> list[WrittenRecord]:
        """Write records in the transaction, as `ottla.Broker.produce` does."""
        from ottla.client.records.producing import produce_each
        from ottla.testing.serialization import new_records

        records = new_records(values, key=key, headers=headers, partition=partition, timestamp=timestamp, serializer=serializer)
        producer, now_ms = self._open(), self._questions.now_ms
        if not records:
            return []
        return self._questions.write(topic, lambda client: produce_each(client.brokers, topic, records, now_ms, producer))

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets of a group in the transaction, by topic and partition."""
        producer = self._open()
        with self._questions.cluster() as client:
            producer.commit_offsets(client.brokers, group, offsets)

    def commit(self) -> None:
        """Commit the transaction."""
        self._end(commit=True)

    def abort(self) -> None:
        """Abort the transaction, so that read_committed consumers do not receive its records."""
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        producer = self._open()
        with self._questions.cluster() as client:
            producer.end(client.brokers, commit=commit)
        self._is_open = False

    def _check_process(self) -> None:
        if self._process_id != os.getpid():
            raise RuntimeError(f"this transaction belongs to process {self._process_id}; begin a transaction in this process")

    def _open(self) -> TransactionalProducer:
        self._check_process()
        if self._producer is None or not self._is_open:
            what = "has not begun" if self._producer is None else "has ended"
            raise RuntimeError(f"the transaction of {self.transactional_id!r} {what}; use it in a with block, or call begin()")
        return self._producer

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        from ottla.client.errors import ClientError

        # A forked child that leaves the block must not end the transaction, because the parent still writes in it.
        if self._process_id != os.getpid() or not self.is_open:
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort()
        except ClientError as failed:
            # The block's exception is raised, not the abort's error: the broker aborts the transaction after its timeout.
            error.add_note(f"the transaction of {self.transactional_id!r} could not be aborted: {failed}")
