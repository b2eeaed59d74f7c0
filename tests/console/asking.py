"""The request of a console page in a test, whose event loop and client are stubs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from ottla.client.kafka_client import KafkaClient
from ottla.console.deadline import Deadline
from ottla.console.page_request import Asked, LastRead
from ottla.protocol.steps import Steps, run

T = TypeVar("T")
ENDLESS = cast(Deadline, SimpleNamespace(begin=lambda: None, check=lambda: None, alone=nullcontext))
"""A deadline that never expires."""


class StillLoop:
    """A `LoopReader` that calls each function immediately, with a stub of `ControlledBroker` with the attributes ``controlled``."""

    def __init__(self, **controlled: Any) -> None:
        self._controlled: Any = SimpleNamespace(**controlled)

    def read(self, read: Callable[[Any], T]) -> T:
        return read(self._controlled)

    def in_steps(self, read: Callable[[Any], Steps[T]]) -> T:
        return run(read(self._controlled))


def asked_with(
    query: dict[str, str] | None = None, *, view: object = None, client: KafkaClient | None = None, **controlled: Any
) -> Asked:
    """Return a request. ``view`` is a stub of `ClusterView`; ``controlled`` has the attributes of a stub of `ControlledBroker`."""
    return Asked(
        query=query or {},
        view=cast(Any, view),
        loop=StillLoop(**controlled),
        client=lambda: cast(KafkaClient, client),
        last_read=LastRead(),
        deadline=ENDLESS,
    )
