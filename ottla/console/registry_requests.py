"""Sends several requests to the schema registry at the same time, because each takes long if the registry is far away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

REQUESTS: Final = 8
"""Maximum number of requests of one page or action at the same time."""

T = TypeVar("T")


def concurrently(requests: Iterable[Callable[[], T]], check: Callable[[], None]) -> list[T]:
    """Return the results of all requests in their order. ``check`` is called before each request, and may raise an exception that
    ends the page or action. Raises the error of the first request that failed."""

    def send(request: Callable[[], T]) -> T:
        check()
        return request()

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(send, requests))
