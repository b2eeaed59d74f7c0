"""The declaration of a command, the objects that commands use, and the error of a refused command."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.broker.process.serving import Serving
from ottla.control.clock import ManualClock
from ottla.control.faults.registry import Faults
from ottla.control.history import EventHistory

if TYPE_CHECKING:
    from ottla.broker.view.ports import Viewed

_NUMBER, _NAME = "{number}", "{name}"
_DIGITS = re.compile("[0-9]{1,9}", re.ASCII)


class CommandRefused(Exception):
    """A command cannot be carried out. ``status`` is the status code of the HTTP response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a command that accepts none."""


class ControlledBroker(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that commands use: ``broker`` to read the broker's state, ``serving`` to change the broker."""

    serving: Serving
    faults: Faults
    history: EventHistory
    clock: ManualClock | None = None
    """The clock that commands advance. None if the broker uses the machine's clock."""

    @property
    def broker(self) -> Viewed:
        """The current broker, which the functions of `ottla.broker.view` read. A reset or a restore replaces this object."""
        return self.serving.broker


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command of the control API. ``run`` is called on the broker's event loop with a `ControlledBroker` and the parameters; its
    result is sent as JSON.

    If ``path`` contains ``{number}`` or ``{name}``, ``run`` gets the number or name as its third argument. ``run`` raises
    `CommandRefused`, `DirectoryError` and other errors with messages for people.
    """

    method: str
    path: str
    run: Callable[..., Awaitable[Any]]
    parameters: type[Any] = NoParameters
    parse: Callable[[bytes], Any] | None = None
    """Parses the request's body, instead of the type ``parameters``. Raises `CommandRefused`."""
    waits: bool = False
    """Whether the command may wait, such as for hits of a fault. Other commands then run meanwhile."""

    def named_in(self, path: str) -> tuple[int | str, ...] | None:
        """Return the number or name in a request's path as a tuple, which is empty if ``path`` has no placeholder. Returns None for
        the path of another command."""
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
        """Parse the parameters in a request's body. Raises `CommandRefused`."""
        if self.parse is not None:
            return self.parse(raw)
        try:
            return msgspec.json.decode(raw or b"{}", type=self.parameters)
        except msgspec.DecodeError as error:
            raise CommandRefused(400, f"the body does not have the expected form: {error}") from None
