"""A bounded cache of the results of requests, which threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RequestCache(Generic[K, V]):
    """Caches the most recently used results. Threads that need the same result at the same time share one request. Requests for
    different results run concurrently."""

    def __init__(self, max_size: int, now_s: Callable[[], float]) -> None:
        self._max_size = max_size
        self._now_s = now_s
        self._lock = threading.Lock()
        self._kept: dict[K, tuple[V, float]] = {}
        """Results with their expiry times in seconds, the most recently used result last."""
        self._pending: dict[K, Future[V]] = {}

    def get(self, key: K, request: Callable[[], V], keep_s: Callable[[V], float]) -> V:
        """Return the cached result, or call ``request`` and cache its result for ``keep_s`` seconds. Errors of ``request`` are
        raised, not cached."""
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None and self._now_s() < kept[1]:
                self._kept[key] = kept
                return kept[0]
            pending = self._pending.get(key)
            own = self._pending[key] = Future() if pending is None else pending
        if pending is not None:
            return pending.result()
        try:
            value = request()
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            own.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
            while len(self._kept) >= self._max_size:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = value, self._now_s() + keep_s(value)
        own.set_result(value)
        return value
