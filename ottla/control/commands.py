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
from ottla.control.command import Command, CommandRefused, NoParameters, Steered
from ottla.control.fault_commands import FAULT_COMMANDS
from ottla.control.faults.added_fault import AddedFault
from ottla.operations.snapshots import growing_snapshot
from ottla.storage.filesystem import described
from ottla.storage.identity import DirectoryError

IDS_SHOWN = 1_000
"""Maximum number of transactional ids in a response. Ids with older events are omitted."""


class SnapshotParameters(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    """The absolute path of the copy on the broker's machine."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or "\0" in self.path:
            raise ValueError("the path must be an absolute path on the broker's machine")


class AdvanceParameters(msgspec.Struct, forbid_unknown_fields=True):
    by_ms: int


async def _state(steered: Steered, _: NoParameters) -> Any:
    # Imported at the first request, so that the broker starts faster.
    from ottla.broker.view.health import health

    return health(steered.broker)


async def _reset(steered: Steered, _: NoParameters) -> None:
    faults = steered.faults
    aside: list[AddedFault] = []

    def set_faults_aside() -> Callable[[], None]:
        aside.extend(faults.set_aside())
        return lambda: faults.put_back(aside)

    with _data_kept(steered, "reset"):
        await steered.serving.reset(set_faults_aside)
    faults.discard(aside)
    steered.history.clear()


async def _snapshot(steered: Steered, parameters: SnapshotParameters) -> None:
    _check_outside(steered, parameters.path)
    try:
        await steered.serving.snapshot(parameters.path)
    except OSError as error:
        is_of_copy = str(error.filename).startswith((growing_snapshot(parameters.path), f"{parameters.path}/"))
        why = error.strerror if is_of_copy or error.filename == parameters.path else described(error)
        raise CommandRefused(409, f"no snapshot was taken at {parameters.path}: {why}; the partial copy was removed") from None


async def _restore(steered: Steered, parameters: SnapshotParameters) -> None:
    _check_outside(steered, parameters.path)
    with _data_kept(steered, "restored"):
        await steered.serving.restore(parameters.path)
    steered.history.clear()


@contextmanager
def _data_kept(steered: Steered, done: str) -> Iterator[None]:
    """Convert an error of a reset or restore to `CommandRefused`. The message says whether the broker keeps its data or has
    stopped."""
    try:
        yield
    except (OSError, DirectoryError, ConfigError) as error:
        left = "it keeps its earlier data" if steered.serving.failure is None else "it has stopped"
        raise CommandRefused(409, f"the broker was not {done}: {described(error)}; {left}") from error


def _check_outside(steered: Steered, path: str) -> None:
    """Raise `CommandRefused` for a snapshot's path in the data directory, also through a symbolic link: a reset or restore could
    delete the snapshot there."""
    if PurePosixPath(realpath(path)).is_relative_to(realpath(steered.serving.directory)):
        raise CommandRefused(400, f"{path} is in the broker's data directory; give a path outside it")


async def _history(steered: Steered, _: NoParameters, transactional_id: str) -> Any:
    view = steered.history.view(transactional_id)
    if view is None:
        raise CommandRefused(
            404, f"unknown transactional id {transactional_id!r}: no client has used it since the broker's process began"
        )
    return view


async def _known_ids(steered: Steered, _: NoParameters) -> Any:
    return {"transactions": steered.history.newest(IDS_SHOWN)}


async def _denials(steered: Steered, _: NoParameters) -> Any:
    authorizer = steered.broker.authorizer
    return {"is_authorizing": authorizer.is_enabled, "denials": authorizer.denials()}


async def _time(steered: Steered, _: NoParameters) -> dict[str, Any]:
    return {"now_ms": steered.broker.clock.now_ms(), "is_manual": steered.clock is not None}


async def _advance(steered: Steered, parameters: AdvanceParameters) -> dict[str, Any]:
    if steered.clock is None:
        raise CommandRefused(409, "the broker uses the machine's clock, which cannot be advanced; start it with --clock manual")
    try:
        await steered.clock.advance(parameters.by_ms, lambda: len(steered.serving.broker.stepping) > 0)
    except ValueError as error:
        raise CommandRefused(400, str(error)) from None
    return await _time(steered, NoParameters())


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
