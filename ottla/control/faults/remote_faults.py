"""Adds and reads faults of a broker in another process, through the broker's control API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.client.real_time import monotonic_s
from ottla.control.remote import ControlError, Remote

if TYPE_CHECKING:
    from ottla.control.faults.fault import Fault

ASK_MS = 10_000
"""Maximum time, in ms, that one request to the control API waits. `RemoteFault.wait` repeats such requests."""


class RemoteFault:
    """A fault that was added to a broker."""

    def __init__(self, control: Callable[[], Remote], fault_id: int) -> None:
        self._control = control
        self.id = fault_id

    def __repr__(self) -> str:
        return f"<ottla.Fault {self.id}>"

    def view(self) -> dict[str, Any]:
        """Return the state of the fault: ``fault``, ``hits``, ``matched``, ``is_spent`` and ``newest_hits``. Like the other methods
        it raises `ControlError`."""
        shown: dict[str, Any] = self._control().get(f"/v1/faults/{self.id}")
        return shown

    @property
    def hits(self) -> int:
        count: int = self.view()["hits"]
        return count

    def wait(self, hits: int = 1, timeout_s: float = 10.0) -> None:
        """Wait until the fault has this number of hits. Raises TimeoutError."""
        deadline_s = monotonic_s() + timeout_s
        while True:
            left_ms = max(0, int((deadline_s - monotonic_s()) * 1_000))
            answer = self._control().post(f"/v1/faults/{self.id}/wait", {"hits": hits, "timeout_ms": min(left_ms, ASK_MS)})
            if answer["hits"] >= hits:
                return
            if not left_ms:
                raise TimeoutError(f"fault {self.id} was triggered {answer['hits']} times in {timeout_s:g} s, not {hits} times")

    def remove(self) -> None:
        """Remove the fault, and release everything that it holds. A second call does nothing."""
        try:
            self._control().delete(f"/v1/faults/{self.id}")
        except ControlError as error:
            if "unknown fault" not in str(error):
                raise

    def __enter__(self) -> RemoteFault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class RemoteFaults:
    """The faults of one broker. `docs/faults.md` describes them."""

    def __init__(self, control: Callable[[], Remote]) -> None:
        self._control = control

    def add(self, fault: Fault | None = None, /, **fields: Any) -> RemoteFault:
        """Add a `Fault`, or a fault with these fields: ``add(api="EndTxn", drop_answer=True)``.

        Raises `FaultError` for an invalid fault, and `ControlError` if the broker refuses it.
        """
        from ottla.control.faults.parsing import fault_of

        one = fault_of(fields) if fault is None else fault
        (added,) = self._control().post("/v1/faults", msgspec.to_builtins(one))
        return RemoteFault(self._control, added["id"])

    def all(self) -> list[RemoteFault]:
        """Return all faults in the order in which they were added."""
        return [RemoteFault(self._control, shown["id"]) for shown in self._control().get("/v1/faults")]

    def clear(self) -> None:
        """Remove all faults, and release everything that they hold."""
        self._control().delete("/v1/faults")
