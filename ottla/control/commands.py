"""The commands of the control API. GET reads state; only POST and DELETE change state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from posixpath import realpath
from typing import Any

import msgspec

from ottla.broker.config.definitions import ConfigError
from ottla.control.client_commands import CLIENT_COMMANDS
from ottla.control.command import Command, CommandRefused, ControlledBroker, NoParameters
from ottla.control.fault_commands import FAULT_COMMANDS
from ottla.control.faults.added_fault import AddedFault
from ottla.operations.snapshots import growing_snapshot
from ottla.storage.filesystem import described
from ottla.storage.identity import DirectoryError

IDS_SHOWN = 1_000
"""Maximum number of transactional ids in a response. Ids with older events are omitted."""


class SnapshotParameters(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    """The absolute path of the snapshot on the broker's machine."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or "\0" in self.path:
            raise ValueError("the path must be an absolute path on the broker's machine")


class AdvanceParameters(msgspec.Struct, forbid_unknown_fields=True):
    by_ms: int


async def _state(controlled: ControlledBroker, _: NoParameters) -> Any:
    # The module is imported at the first request, so that the broker starts faster.
    from ottla.broker.view.health import health

    return health(controlled.broker)


async def _reset(controlled: ControlledBroker, _: NoParameters) -> None:
    faults = controlled.faults
    aside: list[AddedFault] = []

    def set_faults_aside() -> Callable[[], None]:
        aside.extend(faults.set_aside())
        return lambda: faults.put_back(aside)

    with _data_kept(controlled, "reset"):
        await controlled.serving.reset(set_faults_aside)
    faults.discard(aside)
    controlled.history.clear()


async def _snapshot(controlled: ControlledBroker, parameters: SnapshotParameters) -> None:
    _check_outside(controlled, parameters.path)
    try:
        await controlled.serving.snapshot(parameters.path)
    except OSError as error:
        is_of_copy = str(error.filename).startswith((growing_snapshot(parameters.path), f"{parameters.path}/"))
        why = error.strerror if is_of_copy or error.filename == parameters.path else described(error)
        raise CommandRefused(409, f"no snapshot was taken at {parameters.path}: {why}; the partial copy was removed") from None


async def _restore(controlled: ControlledBroker, parameters: SnapshotParameters) -> None:
    _check_outside(controlled, parameters.path)
    with _data_kept(controlled, "restored"):
        await controlled.serving.restore(parameters.path)
    controlled.history.clear()


@contextmanager
def _data_kept(controlled: ControlledBroker, done: str) -> Iterator[None]:
    """Convert an error of a reset or restore to `CommandRefused`. The message says whether the broker keeps its data or has
    stopped."""
    try:
        yield
    except (OSError, DirectoryError, ConfigError) as error:
        left = "it keeps its earlier data" if controlled.serving.failure is None else "it has stopped"
        raise CommandRefused(409, f"the broker was not {done}: {described(error)}; {left}") from error


def _check_outside(controlled: ControlledBroker, path: str) -> None:
    """Raise `CommandRefused` for a snapshot's path in the data directory, also through a symbolic link: a reset or restore could
    delete the snapshot there."""
    if PurePosixPath(realpath(path)).is_relative_to(realpath(controlled.serving.directory)):
        raise CommandRefused(400, f"{path} is in the broker's data directory; give a path outside it")


async def _history(controlled: ControlledBroker, _: NoParameters, transactional_id: str) -> Any:
    view = controlled.history.view(transactional_id)
    if view is None:
        raise CommandRefused(
            404, f"unknown transactional id {transactional_id!r}: no client has used it since the broker's process began"
        )
    return view


async def _known_ids(controlled: ControlledBroker, _: NoParameters) -> Any:
    return {"transactions": controlled.history.newest(IDS_SHOWN)}


async def _denials(controlled: ControlledBroker, _: NoParameters) -> Any:
    authorizer = controlled.broker.authorizer
    return {"is_authorizing": authorizer.is_enabled, "denials": authorizer.denials()}


async def _time(controlled: ControlledBroker, _: NoParameters) -> dict[str, Any]:
    return {"now_ms": controlled.broker.clock.now_ms(), "is_manual": controlled.clock is not None}


async def _advance(controlled: ControlledBroker, parameters: AdvanceParameters) -> dict[str, Any]:
    if controlled.clock is None:
        raise CommandRefused(409, "the broker uses the machine's clock, which cannot be advanced; start it with --clock manual")
    try:
        await controlled.clock.advance(parameters.by_ms, lambda: len(controlled.serving.broker.stepping) > 0)
    except ValueError as error:
        raise CommandRefused(400, str(error)) from None
    return await _time(controlled, NoParameters())


COMMANDS = (
    Command(method="GET", path="/v1/state", run=_state),
    Command(method="GET", path="/v1/clock", run=_time),
    Command(method="POST", path="/v1/clock/advance", run=_advance, parameters=AdvanceParameters),
    Command(method="POST", path="/v1/reset", run=_reset),
    Command(method="POST", path="/v1/snapshot", run=_snapshot, parameters=SnapshotParameters),
    Command(method="POST", path="/v1/restore", run=_restore, parameters=SnapshotParameters),
    Command(method="GET", path="/v1/transactions", run=_known_ids),
    Command(method="GET", path="/v1/transactions/{name}/history", run=_history),
    Command(method="GET", path="/v1/denials", run=_denials),
    *CLIENT_COMMANDS,
    *FAULT_COMMANDS,
)
"""All commands that run on the event loop. `http_api` carries out pause and resume, because a paused event loop runs no command."""
