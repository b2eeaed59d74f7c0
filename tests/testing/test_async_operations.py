"""A cancelled coroutine of a transaction leaves no transaction open."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from ottla.testing import operations
from ottla.testing.async_operations import AsyncOperations

WAIT_S = 20.0


class HeldTransaction:
    """A transaction whose `begin` waits for the test."""

    transactional_id = "checkout"

    def __init__(self) -> None:
        self.begins, self.may_begin, self.has_ended = threading.Event(), threading.Event(), threading.Event()
        self.is_open = False
        self.ends: list[type[BaseException] | None] = []

    def begin(self) -> None:
        self.begins.set()
        assert self.may_begin.wait(WAIT_S)
        self.is_open = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.is_open:
            self.is_open = False
            self.ends.append(kind)
            self.has_ended.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldTransaction:
    made = HeldTransaction()
    monkeypatch.setattr(operations, "transaction", lambda *_, **__: made)
    return made


async def use(block: asyncio.Event) -> None:
    async with AsyncOperations(cast(Any, None)).transaction("checkout"):
        block.set()


async def test_async_transaction_that_begins_after_its_cancellation_is_aborted(held: HeldTransaction) -> None:
    block = asyncio.Event()
    task = asyncio.create_task(use(block))
    assert await asyncio.to_thread(held.begins.wait, WAIT_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.may_begin.set()
    assert await asyncio.to_thread(held.has_ended.wait, WAIT_S)
    assert (held.ends, block.is_set()) == ([asyncio.CancelledError], False)


async def test_cancelled_async_transaction_does_not_begin_later(held: HeldTransaction) -> None:
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        is_free = threading.Event()
        executor.submit(is_free.wait, WAIT_S)
        held.may_begin.set()
        task = asyncio.create_task(use(asyncio.Event()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        is_free.set()
    assert (held.is_open, held.ends) == (False, [])


async def test_cancelled_async_commit_continues_in_its_thread(held: HeldTransaction) -> None:
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        held.may_begin.set()
        is_free, block = threading.Event(), asyncio.Event()

        async def fill_and_leave() -> None:
            async with AsyncOperations(cast(Any, None)).transaction("checkout"):
                executor.submit(is_free.wait, WAIT_S)
                block.set()

        task = asyncio.create_task(fill_and_leave())
        # The block ends in the same iteration of the event loop, and the commit runs in a thread.
        await block.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        is_free.set()
    assert (held.is_open, held.ends) == (False, [None])
