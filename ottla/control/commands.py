"""What may be asked of a broker from outside, by name: state is read by GET, and changed by nothing else than POST and DELETE."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ottla.broker.serving import Serving
from ottla.control.clock import ManualClock


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


class AdvanceParameters(msgspec.Struct, forbid_unknown_fields=True):
    by_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """What the door is on."""

    serving: Serving
    clock: ManualClock | None = None
    """None where the broker goes by the machine's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``run`` is called on the broker's event loop with its parameters, and gives what is answered as JSON.

    Raises `Refused`, `DirectoryError` and whatever else names what a person has to mend.
    """

    method: str
    path: str
    parameters: type[Any]
    run: Callable[[Steered, Any], Awaitable[Any]]


async def _state(steered: Steered, _: NoParameters) -> dict[str, Any]:
    serving = steered.serving
    broker = serving.broker
    return {
        "bootstrap": broker.bootstrap,
        "cluster_id": broker.cluster_id,
        "data_dir": serving.directory,
        "is_sound": broker.is_sound,
        "unexpected_errors": broker.unexpected_errors,
    }


async def _reset(steered: Steered, _: NoParameters) -> None:
    await steered.serving.reset()


async def _snapshot(steered: Steered, parameters: SnapshotParameters) -> None:
    await steered.serving.snapshot(parameters.path)


async def _restore(steered: Steered, parameters: SnapshotParameters) -> None:
    await steered.serving.restore(parameters.path)


async def _time(steered: Steered, _: NoParameters) -> dict[str, Any]:
    return {"now_ms": steered.serving.broker.clock.now_ms(), "is_manual": steered.clock is not None}


async def _advance(steered: Steered, parameters: AdvanceParameters) -> dict[str, Any]:
    if steered.clock is None:
        raise Refused(409, "the broker goes by the machine's clock, which nobody moves; start it with --clock manual")
    try:
        await steered.clock.advance(parameters.by_ms, lambda: len(steered.serving.broker.stepping) > 0)
    except ValueError as error:
        raise Refused(400, str(error)) from None
    return await _time(steered, NoParameters())


COMMANDS = (
    Command(method="GET", path="/v1/state", parameters=NoParameters, run=_state),
    Command(method="GET", path="/v1/clock", parameters=NoParameters, run=_time),
    Command(method="POST", path="/v1/clock/advance", parameters=AdvanceParameters, run=_advance),
    Command(method="POST", path="/v1/reset", parameters=NoParameters, run=_reset),
    Command(method="POST", path="/v1/snapshot", parameters=SnapshotParameters, run=_snapshot),
    Command(method="POST", path="/v1/restore", parameters=SnapshotParameters, run=_restore),
)
"""`door` adds what it does itself: to hold the event loop, and to let it go on."""
