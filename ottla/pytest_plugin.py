"""Fixtures for tests against a broker: ``ottla``, ``ottla_bootstrap``, ``ottla_topic``, ``ottla_group``.

One broker a session and xdist worker. Nothing of the broker is imported here: it runs as its own process.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.handle import Broker


@pytest.fixture(scope="session")
def ottla() -> Iterator[Broker]:
    """A running broker on a temporary directory."""
    from ottla.handle import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_bootstrap(ottla: Broker) -> str:
    """``host:port`` of the broker."""
    return ottla.bootstrap


@pytest.fixture
def ottla_topic() -> str:
    """A topic name that nobody has used; the broker makes the topic when it is first asked for."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def ottla_group() -> str:
    """A consumer group id that nobody has used."""
    return f"group-{uuid.uuid4().hex[:12]}"
