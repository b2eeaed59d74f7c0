"""The response of a request that must wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Later:
    """A pending response. `resolve` may be called before or after `on_ready`; only the first call of `resolve` counts.

    ``is_durable``: the response is resolved only after the writes that it depends on are synced, so the connection need not wait
    for them. ``on_abandoned`` is called when the client has disconnected. ``is_large``: the response has so many elements that a
    worker thread should encode it.
    """

    __slots__ = ("_callback", "_done", "_response", "is_durable", "is_large", "on_abandoned")

    def __init__(self, *, is_durable: bool = False, on_abandoned: Callable[[], None] | None = None) -> None:
        self.is_durable = is_durable
        self.is_large = False
        self.on_abandoned = on_abandoned
        self._callback: Callable[[Any], None] | None = None
        self._done = False
        self._response: Any = None

    @property
    def is_done(self) -> bool:
        return self._done

    def resolve(self, response: Any) -> None:
        if self._done:
            return
        self._done, self._response = True, response
        callback, self._callback, self.on_abandoned = self._callback, None, None
        if callback is not None:
            callback(response)

    def abandon(self) -> None:
        """Drop the response because the client has disconnected, and call ``on_abandoned`` to cancel its work."""
        if self._done:
            return
        self._done = True
        on_abandoned, self._callback, self.on_abandoned = self.on_abandoned, None, None
        if on_abandoned is not None:
            on_abandoned()

    def on_ready(self, callback: Callable[[Any], None]) -> None:
        if self._done:
            callback(self._response)
        else:
            self._callback = callback
