"""Faults of a broker in another process, through its door."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.control.remote import ControlError, Remote

if TYPE_CHECKING:
    from ottla.control.fault import Fault

ASK_MS = 10_000
"""How long the door is asked to wait at once; a longer wait asks again."""


class RemoteFault:
    """A fault that was added to a broker."""

    def __init__(self, control: Callable[[], Remote], fault_id: int) -> None:
        self._control = control
        self.id = fault_id

    def __repr__(self) -> str:
        return f"<ottla.Fault {self.id}>"

    def view(self) -> dict[str, Any]:
        """How it stands: ``fault``, ``hits``, ``matched``, ``is_spent`` and ``strikes``, the newest requests that it struck.

        Raises `ControlError`, as do the following.
        """
        shown: dict[str, Any] = self._control().get(f"/v1/faults/{self.id}")
        return shown

    @property
    def hits(self) -> int:
        """How often it has struck."""
        count: int = self.view()["hits"]
        return count

    def wait(self, hits: int = 1, timeout_s: float = 10.0) -> None:
        """Until it has struck so often. Raises TimeoutError."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            left_ms = max(0, int((deadline_s - time.monotonic()) * 1_000))
            answer = self._control().post(f"/v1/faults/{self.id}/wait", {"hits": hits, "timeout_ms": min(left_ms, ASK_MS)})
            if answer["hits"] >= hits:
                return
            if not left_ms:
                raise TimeoutError(f"fault {self.id} has struck {answer['hits']} times in {timeout_s:g} s, and not {hits} times")

    def remove(self) -> None:
        """It strikes no more, and what it held goes on. Removing it again does nothing."""
        try:
            self._control().delete(f"/v1/faults/{self.id}")
        except ControlError as error:
            if "there is no fault" not in str(error):
                raise

    def __enter__(self) -> RemoteFault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class RemoteFaults:
    """The faults of one broker; `docs/faults.md` says what there is."""

    def __init__(self, control: Callable[[], Remote]) -> None:
        self._control = control

    def add(self, fault: Fault | None = None, /, **fields: Any) -> RemoteFault:
        """A `Fault`, or its fields: ``add(api="EndTxn", drop_answer=True)``.

        Raises `FaultError` for one that cannot be, `ControlError` where it is refused.
        """
        from ottla.control.parsing import fault_of

        one = fault_of(fields) if fault is None else fault
        (added,) = self._control().post("/v1/faults", msgspec.to_builtins(one))
        return RemoteFault(self._control, added["id"])

    def all(self) -> list[RemoteFault]:
        """In the order in which they were added."""
        return [RemoteFault(self._control, shown["id"]) for shown in self._control().get("/v1/faults")]

    def clear(self) -> None:
        """Remove all, and let everything go on that they held."""
        self._control().delete("/v1/faults")
