"""Caches values whose reading takes work in proportion to the size of a cluster, so that open pages read them seldom."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from ottla.broker.view.groups import GroupLag

ITEMS_PER_S: Final = 1_000
"""Number of topics, partitions or groups that a console requests per second on average, however many pages are open: the list of
10,000 topics, a response of about 1 MB, is requested every 10 seconds."""
LONGEST_S: Final = 30.0

T = TypeVar("T")


class KeptReads:
    """A cache that the pages of one console share. Values of small clusters expire almost at once."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Any]] = {}
        self._changes = 0

    def get(self, name: str, read: Callable[[], T], items: Callable[[T], int]) -> T:
        """Return the cached value, or call ``read``. ``items`` returns how many topics, partitions or groups a value was read from,
        which decides how long the value is cached."""
        with self._lock:
            until_s, value = self._kept.get(name, (0.0, None))
            if self._now_s() < until_s:
                return value  # type: ignore[no-any-return]
            changes = self._changes
        found = read()
        with self._lock:
            # If an action ended during the read, the value may lack the action's change, and is not cached.
            if changes == self._changes:
                self._kept[name] = self._now_s() + min(items(found) / ITEMS_PER_S, LONGEST_S), found
        return found

    def clear(self) -> None:
        """Discard all values, because an action has changed the cluster."""
        with self._lock:
            self._changes += 1
            self._kept.clear()


def items_of_lags(lags: Iterable[GroupLag]) -> int:
    """Return the number of groups and of their partitions, for `KeptReads.get`."""
    return sum(1 + lag.partitions for lag in lags)
