"""The request of a console page: its query, and access to the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from ottla.client.kafka_client import KafkaClient
from ottla.console.deadline import Deadline
from ottla.control.command import CommandRefused, Steered
from ottla.control.pages import OnLoop
from ottla.control.timeline import client_text
from ottla.protocol.errors import KafkaError

MAX_DIGITS: Final = 18
"""Maximum number of digits of a number in a query, so that it fits into an offset."""
PARTITIONS_OF_A_TURN: Final = 500
"""Number of partitions that one turn of the event loop reads, which takes some ms."""

T = TypeVar("T")
R = TypeVar("R")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a page's query, a client of the broker, the function that reads on the broker's event loop, and the
    deadline."""

    query: Mapping[str, str]
    client: KafkaClient
    on_loop: OnLoop
    deadline: Deadline

    def number(self, name: str, default: int = 0) -> int:
        """Return the number in a parameter. Raises `CommandRefused`."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
            raise CommandRefused(400, f"{name} must be a number of 0 or more")
        return int(text)

    def required(self, name: str) -> str:
        """Return a required parameter. Raises `CommandRefused`."""
        if not self.query.get(name):
            raise CommandRefused(400, f"{name} is missing")
        return self.query[name]

    def in_turns(self, items: Sequence[T], read: Callable[[Steered, T], R], of_a_turn: int) -> list[R]:
        """Return the result of ``read`` for each item. The broker serves its clients between two turns of the event loop.

        Raises `Late`.
        """

        def turn(start: int) -> list[R]:
            self.deadline.check()
            return self.on_loop(lambda steered: [read(steered, item) for item in items[start : start + of_a_turn]])

        return [given for start in range(0, len(items), of_a_turn) for given in turn(start)]


def refusal(error: KafkaError) -> CommandRefused:
    return CommandRefused(409, error.message or error.code.name)


def now_of(steered: Steered) -> int:
    """Return the broker's time in ms. A running clock is rounded down to seconds, so that a page changes and is redrawn at most
    once a second. A manual clock changes nothing by itself, so it is exact."""
    now_ms = steered.serving.broker.clock.now_ms()
    return now_ms if steered.clock is not None else now_ms // 1_000 * 1_000


def clients_of(steered: Steered, transactional_ids: Iterable[str]) -> dict[str, str]:
    """Return the current owner of each id, if it is known."""
    holders = {one: steered.history.holder(one) for one in transactional_ids}
    return {one: client_text(holder.client_id, holder.client_host) for one, holder in holders.items() if holder is not None}
