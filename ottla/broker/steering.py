"""By what a broker's process is steered from outside, where it is: nothing of this is needed to serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from ottla.broker.env import TimeSource
from ottla.broker.interception import Interception
from ottla.broker.serving import Serving


class Door(Protocol):
    """Where the broker is steered."""

    url: str
    token: str

    def close(self) -> None: ...


class Owner(Protocol):
    """The process without which this one has nothing to do."""

    def watch(self, end: Callable[[], None]) -> None:
        """``end`` is called from another thread when it is gone."""
        ...

    def ended(self) -> None:
        """This process is about to end."""
        ...


class Steering(msgspec.Struct, frozen=True, kw_only=True):
    begin: Callable[[], None] | None = None
    """Called first, once there is a log to write lines into."""
    open_door: Callable[[Serving], Door] | None = None
    """Called once the broker serves. Raises `ConfigError`."""
    owner: Owner | None = None
    clock: TimeSource | None = None
    """In place of the machine's."""
    interception: Interception | None = None
    """Who may stand in the way of requests and transactions."""
