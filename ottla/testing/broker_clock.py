"""The clock of a broker, and snapshots of its data."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from ottla.client.real_time import now_ms
from ottla.control.argument_types import checks_argument_types
from ottla.control.durations import duration_ms
from ottla.control.remote import Remote


class Snapshot:
    """A copy of a broker's data, for `Broker.restore`. The copy exists as long as the `Broker` object's temporary directory."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __repr__(self) -> str:
        return f"<ottla.Snapshot {self.path}>"


@checks_argument_types
class BrokerClock:
    """The clock of a broker. A manual clock changes only by `advance`."""

    def __init__(self, control: Callable[[], Remote], *, is_manual: bool) -> None:
        self._control = control
        self.is_manual = is_manual
        self.last_ms: int | None = None
        """The last known time of a manual clock, in ms. A restarted broker's clock begins at this time."""

    def __repr__(self) -> str:
        return f"<ottla.Clock {'manual' if self.is_manual else 'machine'}>"

    @property
    def now_ms(self) -> int:
        """The broker's time in ms since 1970. Raises `ControlError`."""
        shown: int = self._control().get("/v1/clock")["now_ms"]
        return shown

    def approximate_ms(self) -> int:
        """Return the clock's time without a request to the broker."""
        return now_ms() if self.last_ms is None else self.last_ms

    def advance(self, duration: str | timedelta) -> None:
        """Advance the clock by a duration such as ``61s``, ``1h30m`` or ``7d``. Returns after all due timers were called, in the
        order of their times.

        Raises ValueError for an invalid duration, and `ControlError` if the clock is not manual.
        """
        self.last_ms = self._control().post("/v1/clock/advance", {"by_ms": duration_ms(duration)})["now_ms"]
