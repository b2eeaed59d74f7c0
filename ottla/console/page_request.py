"""The request of a console page: query parameters, and access to the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from ottla.client.kafka_client import KafkaClient
from ottla.console.cluster_view import ClusterView
from ottla.console.deadline import Deadline
from ottla.console.decoding import RegisteredValues
from ottla.control.command import CommandRefused, ControlledBroker
from ottla.control.pages import LoopReader
from ottla.control.timeline import client_text
from ottla.protocol.errors import Code, KafkaError

MAX_DIGITS: Final = 18
"""Maximum number of digits of a number in a query, so that the number is a valid int64 offset."""
MISSING: Final = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.GROUP_ID_NOT_FOUND, Code.TRANSACTIONAL_ID_NOT_FOUND)
"""Error codes after which a page must be cleared, because its topic, group or transactional id no longer exists."""

T = TypeVar("T")


class LastRead:
    """Caches the values that an open page has read with its client, until their key changes."""

    def __init__(self) -> None:
        self._key: object = None
        self._values: object = None

    def get(self, key: object, read: Callable[[], T]) -> T:
        """Return the cached values if ``key`` equals the key of the previous call, else call ``read``. For the key None ``read`` is
        always called."""
        if key is None or key != self._key:
            self._key = None
            self._values = read()
            self._key = key
        return self._values  # type: ignore[return-value]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The query parameters of a page, and the objects from which the page reads its values.

    ``view`` has the state of the cluster. ``loop`` reads faults, clock and history of this process's control API. ``client``
    returns a client of the broker, for records. The client and ``last_read`` live as long as the page is open.
    """

    query: Mapping[str, str]
    view: ClusterView
    loop: LoopReader
    client: Callable[[], KafkaClient]
    last_read: LastRead
    deadline: Deadline
    of_cluster: Sequence[str] = ()
    """The connection options of the ``ottla`` commands that a page shows."""
    registered: RegisteredValues | None = None
    """Decodes values with the schemas of a registry, if the console has one."""

    def number(self, name: str, default: int = 0) -> int:
        """Return a query parameter as a number. Raises `CommandRefused` if it is not a number."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise CommandRefused(400, f"{name} must be a number of 0 or more")
        return int(text)

    def required(self, name: str) -> str:
        """Return a query parameter. Raises `CommandRefused` if it is missing."""
        if not self.query.get(name):
            raise CommandRefused(400, f"{name} is missing")
        return self.query[name]


def refusal(error: KafkaError) -> CommandRefused:
    return CommandRefused(404 if error.code in MISSING else 409, error.message or error.code.name)


def now_of(controlled: ControlledBroker) -> int:
    """Return the broker's time in ms. The machine's clock is rounded down to seconds, so that a page is redrawn at most once a
    second. A manual clock is exact, because it does not advance by itself."""
    now_ms = controlled.broker.clock.now_ms()
    return now_ms if controlled.clock is not None else now_ms // 1_000 * 1_000


def clients_of(controlled: ControlledBroker, transactional_ids: Iterable[str]) -> dict[str, str]:
    """Return a text for the current owner of each transactional id whose owner is in the history."""
    holders = {one: controlled.history.holder(one) for one in transactional_ids}
    return {one: client_text(holder.client_id, holder.client_host) for one, holder in holders.items() if holder is not None}
