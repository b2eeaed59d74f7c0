"""How a broker is asked something from outside: what a command is, and how it is refused."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ottla.broker.serving import Serving
from ottla.control.clock import ManualClock
from ottla.control.faults import Faults
from ottla.control.history import EventHistory

_NUMBER, _NAME = "{number}", "{name}"
_DIGITS = re.compile("[0-9]{1,9}", re.ASCII)


class Refused(Exception):
    """What was asked cannot be done; the text is one line for a person. ``status`` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoParameters(msgspec.Struct, forbid_unknown_fields=True):
    """For commands that take none."""


class Steered(msgspec.Struct, frozen=True, kw_only=True):
    """What the door is on."""

    serving: Serving
    faults: Faults
    history: EventHistory
    clock: ManualClock | None = None
    """None where the broker goes by the machine's clock."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """``run`` is called on the broker's event loop with its parameters, and gives what is answered as JSON.

    A ``path`` with ``{number}`` or ``{name}`` stands for many; what stands there is the third argument of ``run``, which raises
    `Refused`, `DirectoryError` and whatever else names what a person has to mend.
    """

    method: str
    path: str
    run: Callable[..., Awaitable[Any]]
    parameters: type[Any] = NoParameters
    parse: Callable[[bytes], Any] | None = None
    """Reads the body in place of ``parameters``. Raises `Refused`."""
    waits: bool = False
    """Whether others may be asked meanwhile."""

    def named_in(self, path: str) -> tuple[int | str, ...] | None:
        """The number or name in a path that is one of this command's, if there is any in it; None for another's path."""
        place = next((place for place in (_NUMBER, _NAME) if place in self.path), None)
        if place is None:
            return () if path == self.path else None
        before, _, after = self.path.partition(place)
        if not (path.startswith(before) and path.endswith(after) and len(path) > len(before) + len(after)):
            return None
        middle = path[len(before) : len(path) - len(after)]
        if place == _NAME:
            return (middle,)
        return (int(middle),) if _DIGITS.fullmatch(middle) else None

    def parsed(self, raw: bytes) -> Any:
        """Raises `Refused`."""
        if self.parse is not None:
            return self.parse(raw)
        try:
            return msgspec.json.decode(raw or b"{}", type=self.parameters)
        except msgspec.DecodeError as error:
            raise Refused(400, f"the body is not what is wanted here: {error}") from None
