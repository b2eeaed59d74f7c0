"""Coroutines for the requests of `ottla.Broker` and `ottla.Cluster`, for tests with asyncio. A request runs in a thread and does
not block the event loop.

A cancelled call stops waiting, but its request continues in the thread until its timeout. A transaction that begins after the
cancellation is aborted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ottla.control.argument_types import checks_argument_types
from ottla.testing import operations
from ottla.testing.cluster_queries import TIMEOUT_S

if TYPE_CHECKING:
    from ottla.client.records.producing import WrittenRecord
    from ottla.testing.operations import Handle, Value
    from ottla.testing.serialization import Record, RecordHeaders, Serialized
    from ottla.testing.topic_reader import Consumed
    from ottla.testing.transactions import Transaction

T = TypeVar("T")


@checks_argument_types
class AsyncOperations:
    """Coroutines for the requests that wait for a broker. `ottla.Broker.aio` and `ottla.Cluster.aio` return it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def produce(
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
        """Write records, as `ottla.Broker.produce`."""

        def write() -> list[WrittenRecord]:
            given: dict[str, Any] = {} if serializer is None else {"serializer": serializer}
            return operations.produce(
                self._handle, topic, values, key=key, headers=headers, partition=partition, timestamp=timestamp, **given
            )

        return await asyncio.to_thread(write)

    @asynccontextmanager
    async def transaction(self, transactional_id: str | None = None, *, timeout_s: float = 60.0) -> AsyncIterator[AsyncTransaction]:
        """Commit the transaction of an ``async with`` block, or abort it after an exception, as `ottla.Broker.transaction`."""
        transaction = operations.transaction(self._handle, transactional_id, timeout_s=timeout_s)
        await _begin(transaction)
        try:
            yield AsyncTransaction(transaction)
        except BaseException as error:
            await _in_thread(transaction.__exit__, type(error), error, None)
            raise
        await _in_thread(transaction.__exit__, None, None, None)

    @overload
    async def consume(
        self, topic: str, n: int | None = None, *, timeout_s: float = TIMEOUT_S, partition: int | None = None, start: int = 0
    ) -> list[Consumed[bytes]]: ...

    @overload
    async def consume(
        self,
        topic: str,
        n: int | None = None,
        *,
        deserializer: Callable[[bytes], T],
        timeout_s: float = TIMEOUT_S,
        partition: int | None = None,
        start: int = 0,
    ) -> list[Consumed[T]]: ...

    async def consume(
        self,
        topic: str,
        n: int | None = None,
        *,
        deserializer: Callable[[bytes], Any] = bytes,
        timeout_s: float = TIMEOUT_S,
        partition: int | None = None,
        start: int = 0,
    ) -> list[Consumed[Any]]:
        """Wait for ``n`` committed records, as `ottla.Broker.consume`."""
        __tracebackhide__ = True
        return await asyncio.to_thread(
            lambda: operations.consume(
                self._handle, topic, n, deserializer=deserializer, timeout_s=timeout_s, partition=partition, start=start
            )
        )

    async def expect(
        self,
        topic: str,
        values: Value | Record | Iterable[Any],
        *,
        in_any_order: bool = False,
        timeout_s: float = TIMEOUT_S,
        partition: int | None = None,
        start: int = 0,
        deserializer: Callable[[bytes], Any] | None = None,
    ) -> None:
        """Wait for exactly these committed records, as `ottla.Broker.expect`."""
        __tracebackhide__ = True
        await asyncio.to_thread(
            lambda: operations.expect(
                self._handle,
                topic,
                values,
                in_any_order=in_any_order,
                timeout_s=timeout_s,
                partition=partition,
                start=start,
                deserializer=deserializer,
            )
        )

    async def wait_for(self, condition: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
        """Call ``condition`` in a thread until it returns a true value, as `ottla.Broker.wait_for`."""
        return await asyncio.to_thread(operations.wait_for, self._handle, condition, timeout_s)


@checks_argument_types
class AsyncTransaction:
    """An open transaction, whose requests are coroutines. `AsyncOperations.transaction` begins and ends it."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.transactional_id = transaction.transactional_id

    async def produce(self, topic: str, values: Any, **options: Any) -> list[WrittenRecord]:
        """Write records in the transaction. The options are those of `AsyncOperations.produce`."""
        return await asyncio.to_thread(lambda: self._transaction.produce(topic, values, **options))

    async def commit_offsets(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        """Commit offsets of a group in the transaction."""
        await asyncio.to_thread(self._transaction.commit_offsets, group, offsets)

    async def abort(self) -> None:
        """Abort the transaction before the end of the block."""
        await asyncio.to_thread(self._transaction.abort)


async def _in_thread(function: Callable[..., object], *arguments: object) -> None:
    """Run a function in a thread, even if the caller is cancelled before a thread is free. `asyncio.to_thread` would not run it."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, *arguments))


async def _begin(transaction: Transaction) -> None:
    """Begin a transaction. If the caller is cancelled meanwhile, a thread aborts the transaction, because the ``async with`` block
    does not run."""
    lock = threading.Lock()
    is_cancelled = False

    def begin() -> None:
        with lock:
            if not is_cancelled:
                transaction.begin()

    def abort(error: BaseException) -> None:
        with lock:
            transaction.__exit__(type(error), error, None)

    try:
        await _in_thread(begin)
    except asyncio.CancelledError as error:
        is_cancelled = True
        asyncio.get_running_loop().run_in_executor(None, abort, error)
        raise
