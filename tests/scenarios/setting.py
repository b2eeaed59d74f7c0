"""What the questions of the comparison with Apache Kafka find on each of the two brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ottla.simulation.client import newest
from tests.support import oracle

NO_SUCH_ID = b"\x11" * 16
NO_SUCH_NODE = 77
NO_SUCH_PRODUCER = 4_999_999
TIMEOUT_MS = 5_000
NOW_MS = time.time_ns() // 1_000_000
"""When records are written, by both brokers' clients."""

Questions = Iterator[tuple[str, Any]]


class Setting:
    """What the questions find: topics ``one`` and ``two`` (of as many partitions), ``full`` with three records, ``compact``.

    ``ids`` are the topics' ids, ``init`` gives the producer id and epoch of a transactional id, ``call`` sends a request at a
    version, to bring about what a question is about.
    """

    def __init__(
        self,
        *,
        prefix: str,
        node_id: int,
        ids: dict[str, bytes],
        init: Callable[[str], tuple[int, int]],
        call: Callable[[Any, int], Any],
    ) -> None:
        self._prefix = prefix
        self.node_id = node_id
        self.ids = ids
        self.init = init
        self.call = call

    def change(self, request: Any, version: int, question: Any, shows: Callable[[Any], bool]) -> None:
        """Send a request that changes something, and ask until an answer shows it: Kafka's broker follows its controller later."""
        self.call(request, version)
        oracle.wait_for(f"a {type(question).__name__} shows the change", lambda: self.call(question, newest(question)), shows)

    def name(self, stem: str) -> str:
        return f"{self._prefix}-{stem}"

    def id(self, stem: str) -> bytes:
        return self.ids[self.name(stem)]
