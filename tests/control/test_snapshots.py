"""Snapshots, resets and restores that fail: the control API's responses."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.config.definitions import ConfigError
from ottla.control.command import CommandRefused
from ottla.control.commands import COMMANDS
from ottla.control.faults.fault import Fault
from ottla.control.faults.registry import Faults
from ottla.storage.identity import DirectoryError


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (None, "No space left on device"),
        ("/full/s", "No space left on device"),
        ("/data/t-0/0.log", "/data/t-0/0.log: No space left on device"),
    ],
)
def test_broker_snapshot_on_a_full_disk_reports_the_requested_path(file: str | None, told: str) -> None:
    async def snapshot(path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", file)

    controlled = cast(Any, SimpleNamespace(serving=SimpleNamespace(directory="/data", snapshot=snapshot)))
    (command,) = [command for command in COMMANDS if command.path == "/v1/snapshot"]
    with pytest.raises(CommandRefused) as refused:
        asyncio.run(command.run(controlled, command.parsed(b'{"path": "/full/s"}')))
    assert str(refused.value) == f"no snapshot was taken at /full/s: {told}; the partial copy was removed"


class FailingServing:
    """Fails before or after the data is replaced. ``failure`` is set if no broker runs afterwards."""

    directory = "/data"

    def __init__(self, error: Exception, *, is_replaced: bool, has_stopped: bool) -> None:
        self._error = error
        self._is_replaced = is_replaced
        self.failure = error if has_stopped else None

    async def reset(self, on_replaced: Callable[[], Callable[[], None]]) -> None:
        if self._is_replaced:
            undo = on_replaced()
            undo()
        raise self._error

    async def restore(self, source: str) -> None:
        raise self._error


def refusal(path: str, body: bytes, serving: FailingServing) -> tuple[CommandRefused, list[str]]:
    """Run a command that fails. Returns its refusal, and whether it has cleared the faults and the history."""
    cleared: list[str] = []
    controlled = cast(
        Any,
        SimpleNamespace(
            serving=serving,
            faults=SimpleNamespace(set_aside=list, put_back=lambda _: None, discard=lambda _: cleared.append("faults")),
            history=SimpleNamespace(clear=lambda: cleared.append("history")),
        ),
    )
    (command,) = [command for command in COMMANDS if command.path == path]
    with pytest.raises(CommandRefused) as refused:
        asyncio.run(command.run(controlled, command.parsed(body)))
    return refused.value, cleared


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), "/data/x: No space left on device"),
        (DirectoryError("/kept is damaged"), "/kept is damaged"),
        (ConfigError("cannot listen"), "cannot listen"),
    ],
)
def test_failed_broker_reset_and_restore_report_the_state_of_the_data(error: Exception, reason: str) -> None:
    serving = FailingServing(error, is_replaced=False, has_stopped=False)
    refused, cleared = refusal("/v1/reset", b"", serving)
    assert (refused.status, str(refused)) == (409, f"the broker was not reset: {reason}; it keeps its earlier data")
    assert not cleared, "faults and history are unchanged"
    refused, cleared = refusal("/v1/restore", b'{"path": "/kept"}', serving)
    assert (refused.status, str(refused)) == (409, f"the broker was not restored: {reason}; it keeps its earlier data")
    assert not cleared
    serving = FailingServing(error, is_replaced=True, has_stopped=True)
    refused, cleared = refusal("/v1/reset", b"", serving)
    assert (refused.status, str(refused)) == (409, f"the broker was not reset: {reason}; it has stopped")
    assert not cleared


END_TXN = 26


@pytest.mark.parametrize("is_replaced", [False, True])
def test_failed_broker_reset_keeps_faults_and_history(is_replaced: bool) -> None:
    faults = Faults()
    added = faults.add(Fault(api="EndTxn", error="NOT_COORDINATOR"))
    forgotten: list[str] = []
    controlled = cast(
        Any,
        SimpleNamespace(
            serving=FailingServing(ConfigError("cannot listen"), is_replaced=is_replaced, has_stopped=False),
            faults=faults,
            history=SimpleNamespace(clear=lambda: forgotten.append("history")),
        ),
    )
    (command,) = [command for command in COMMANDS if command.path == "/v1/reset"]
    with pytest.raises(CommandRefused):
        asyncio.run(command.run(controlled, command.parsed(b"")))
    assert faults.all() == [added]
    assert [watched.id for watched in faults.watched_keys[END_TXN]] == [added.id]
    assert not added.latch.is_open
    assert not forgotten
