"""What may be asked of a broker from outside, by name: state is read by GET, and changed by nothing else than POST and DELETE."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ottla.broker.serving import Serving


class Refused(Exception):
    """What was asked cannot be done; the text is one line for a person. ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoParameters(msgspec.Struct, forbid_unknown_fields=True):
    """For commands that take none."""


class SnapshotParameters(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    """Where the copy lies, an absolute path of the broker's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``run`` is called on the broker's event loop with its parameters, and gives what is answered as JSON.

    Raises `Refused`, `DirectoryError` and whatever else names what a person has to mend.
    """

    method: str
    path: str
    parameters: type[Any]
    run: Callable[[Serving, Any], Awaitable[Any]]


async def _state(serving: Serving, _: NoParameters) -> dict[str, Any]:
    broker = serving.broker
    return {
        "bootstrap": broker.bootstrap,
        "cluster_id": broker.cluster_id,
        "data_dir": serving.directory,
        "is_sound": broker.is_sound,
        "unexpected_errors": broker.unexpected_errors,
    }


async def _reset(serving: Serving, _: NoParameters) -> None:
    await serving.reset()


async def _snapshot(serving: Serving, parameters: SnapshotParameters) -> None:
    await serving.snapshot(parameters.path)


async def _restore(serving: Serving, parameters: SnapshotParameters) -> None:
    await serving.restore(parameters.path)


COMMANDS = (
    Command(method="GET", path="/v1/state", parameters=NoParameters, run=_state),
    Command(method="POST", path="/v1/reset", parameters=NoParameters, run=_reset),
    Command(method="POST", path="/v1/snapshot", parameters=SnapshotParameters, run=_snapshot),
    Command(method="POST", path="/v1/restore", parameters=SnapshotParameters, run=_restore),
)
"""`door` adds what it does itself: to hold the event loop, and to let it go on."""
