"""Adds and reads faults of a broker in another process, through the broker's control API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from ottla.client.real_time import monotonic_s
from ottla.control.argument_types import checks_argument_types
from ottla.control.remote import ControlError, Remote

if TYPE_CHECKING:
    from ottla.control.faults.apis import Api
    from ottla.control.faults.fault import Fault, Moment, PointName
    from ottla.protocol.errors import Code

ASK_MS = 10_000
"""Maximum time, in ms, that one request to the control API waits. `RemoteFault.wait` repeats such requests."""


class Conditions(TypedDict, total=False):
    """The conditions of a fault. `Fault` describes each field."""

    api: Api | str | int
    version: str | int
    client_id: str
    topic: str
    partition: int
    group: str
    transactional_id: str
    fields: Mapping[str, Any]
    nth: int
    times: int | None
    probability: float
    seed: int


@checks_argument_types
class RemoteFault:
    """A fault that was added to a broker in another process."""

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
        """Wait until the fault has this number of hits. Raises TimeoutError after ``timeout_s``."""
        deadline_s = monotonic_s() + timeout_s
        while True:
            left_ms = max(0, int((deadline_s - monotonic_s()) * 1_000))
            answer = self._control().post(f"/v1/faults/{self.id}/wait", {"hits": hits, "timeout_ms": min(left_ms, ASK_MS)})
            if answer["hits"] >= hits:
                return
            if not left_ms:
                raise TimeoutError(f"fault {self.id} was triggered {answer['hits']} times in {timeout_s:g} s, not {hits} times")

    def remove(self) -> None:
        """Remove the fault, and release its held requests and transactions. A second call does nothing."""
        try:
            self._control().delete(f"/v1/faults/{self.id}")
        except ControlError as error:
            if "unknown fault" not in str(error):
                raise

    def __enter__(self) -> RemoteFault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


@checks_argument_types
class RemoteFaults:
    """The faults of one broker. `docs/faults.md` describes them."""

    def __init__(self, control: Callable[[], Remote]) -> None:
        self._control = control

    def add(self, fault: Fault | None = None, /, **fields: Any) -> RemoteFault:
        """Add a `Fault`, or a fault with these fields: ``add(api="EndTxn", drop_answer=True)``.

        Methods that add a fault raise `FaultError` before they send a request if the fault is invalid, and `ControlError` if the
        broker refuses it.
        """
        from ottla.control.faults.parsing import fault_of

        one = fault_of({name: _name(value) for name, value in fields.items()}) if fault is None else fault
        (added,) = self._control().post("/v1/faults", msgspec.to_builtins(one))
        return RemoteFault(self._control, added["id"])

    def error(self, *, code: Code | str | int, **which: Unpack[Conditions]) -> RemoteFault:
        """Answer requests with an error, without handling them: ``error(api=Api.END_TXN, code=Error.NOT_COORDINATOR, times=2)``."""
        return self.add(error=code, **which)

    def answer(self, response: Mapping[str, Any], **which: Unpack[Conditions]) -> RemoteFault:
        """Answer requests with a whole response, by the field names of Kafka's schemas, without handling them."""
        return self.add(answer=dict(response), **which)

    def cut(self, when: Moment = "after", **which: Unpack[Conditions]) -> RemoteFault:
        """Close the connection before or after a request takes effect."""
        return self.add(cut=when, **which)

    def drop_request(self, **which: Unpack[Conditions]) -> RemoteFault:
        """Ignore requests: they have no effect and get no response."""
        return self.add(drop_request=True, **which)

    def drop_answer(self, **which: Unpack[Conditions]) -> RemoteFault:
        """Let requests take effect, but send no response."""
        return self.add(drop_answer=True, **which)

    def freeze(self, **which: Unpack[Conditions]) -> RemoteFault:
        """Stop reading the requests of matching clients until the fault is removed."""
        return self.add(freeze=True, **which)

    def hold(self, when: Moment | PointName = "before", *, after_markers: int = 1, **which: Unpack[Conditions]) -> RemoteFault:
        """Let requests, responses or transactions wait until the fault is removed."""
        return self.add(hold=when, **_markers(after_markers), **which)

    def kill(self, when: Moment | PointName = "before", *, after_markers: int = 1, **which: Unpack[Conditions]) -> RemoteFault:
        """End the broker's process, as by SIGKILL."""
        return self.add(kill=when, **_markers(after_markers), **which)

    def refuse(
        self, when: PointName, *, code: Code | str | int | None = None, after_markers: int = 1, **which: Unpack[Conditions]
    ) -> RemoteFault:
        """Refuse the next step of transactions with ``code``, by default with a retriable error."""
        return self.add(refuse=when, **({} if code is None else {"error": code}), **_markers(after_markers), **which)

    def delay(self, ms: float = 0, *, answer_ms: float = 0, **which: Unpack[Conditions]) -> RemoteFault:
        """Delay requests before they take effect, or their responses (``answer_ms``)."""
        return self.add(delay_ms=ms, delay_answer_ms=answer_ms, **which)

    def throttle(self, ms: int, **which: Unpack[Conditions]) -> RemoteFault:
        """Throttle clients, as a quota does (KIP-219)."""
        return self.add(throttle_ms=ms, **which)

    def slow(self, bytes_per_second: int, **which: Unpack[Conditions]) -> RemoteFault:
        """Limit the byte rate that all matching requests and responses share."""
        return self.add(bytes_per_second=bytes_per_second, **which)

    def fail_handshake(
        self, *, listener: str | None = None, nth: int = 1, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> RemoteFault:
        """Fail TLS handshakes of new connections on one listener or on all listeners."""
        which: dict[str, Any] = {"nth": nth, "times": times, "probability": probability, "seed": seed}
        return self.add(fail_handshake=True, **which, **({} if listener is None else {"listener": listener}))

    def disconnect(self, *, user: str | None = None, client_id: str | None = None) -> int:
        """Close the connections of clients with this user, this client id or both, once. Returns the number of connections."""
        closed: int = self._control().post("/v1/connections/close", _clients(user, client_id))["connections"]
        return closed

    def expire_sessions(self, *, user: str | None = None, client_id: str | None = None) -> int:
        """End the SASL sessions of clients, as if their tokens had expired: a client that does not authenticate again is
        disconnected at its next request (KIP-368). Returns the number of sessions."""
        expired: int = self._control().post("/v1/sessions/expire", _clients(user, client_id))["sessions"]
        return expired

    def observe(self, **which: Unpack[Conditions]) -> RemoteFault:
        """Count and store requests, but handle them normally."""
        return self.add(observe=True, **which)

    def all(self) -> list[RemoteFault]:
        """Return all faults in the order in which they were added."""
        return [RemoteFault(self._control, shown["id"]) for shown in self._control().get("/v1/faults")]

    def clear(self) -> None:
        """Remove all faults, and release all held requests and transactions."""
        self._control().delete("/v1/faults")


def _name(value: Any) -> Any:
    """Return the name of a member of `Error` or `Api`, as a JSON fault has it."""
    if not isinstance(value, Enum):
        return dict(value) if isinstance(value, Mapping) else value
    return value.value if isinstance(value.value, str) else value.name


def _clients(user: str | None, client_id: str | None) -> dict[str, str]:
    return {name: value for name, value in (("user", user), ("client_id", client_id)) if value is not None}


def _markers(after_markers: int) -> dict[str, int]:
    return {} if after_markers == 1 else {"after_markers": after_markers}
