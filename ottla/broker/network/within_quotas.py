"""Handles the requests of clients while there are quotas: measures them, and throttles clients that exceed a quota.

As in Kafka, the response is sent at once, with the throttle time in it, and the connection is muted for that time. Requests of
brokers and of local clients are exempt. Imported only if there are quotas.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from ottla.broker.apis.api import Declared
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement, Meter
from ottla.broker.loop.env import Clock
from ottla.protocol.codec import counted_bytes
from ottla.protocol.steps import Step, Steps
from ottla.security.acl.codes import AclOperation

PRODUCE_KEY, FETCH_KEY, SHARE_FETCH_KEY = 0, 1, 78
LEAST_MS = 0.001
"""Minimum time in ms that is counted for a request, because the clock may not advance during a short request."""


def is_exempt(api: Declared[Any]) -> bool:
    """Whether only brokers send requests of the API. The handler of Fetch exempts followers' fetches."""
    return bool(api.authorisation) and all(needed.operation is AclOperation.CLUSTER_ACTION for needed in api.authorisation)


async def within_quotas(
    quotas: ClientQuotaEnforcement,
    clock: Clock,
    client: Any,
    api: Declared[Any],
    handled: Steps[Any],
    size_bytes: int,
    mute: Callable[[int], None],
) -> Any:
    """Handle a request and return its response, with the throttle time.

    ``size_bytes`` is the size of the request with its header. ``mute`` mutes the client for some ms.
    """
    use = _Use(quotas, clock)
    response = await use.measure(handled)
    user, client_id = client.principal.name, client.client_id
    if api.key == PRODUCE_KEY:
        wait_ms = quotas.managers.produced(user, client_id, size_bytes, None if response is None else use.used_ms())
    elif api.key == FETCH_KEY:
        # The handler of Fetch has already applied the quota, because a throttled client gets no data.
        wait_ms = response.throttle_time_ms
    elif api.key == SHARE_FETCH_KEY:
        # As in Kafka, ShareFetch returns the acquired records even if the client is throttled.
        size_bytes = counted_bytes(api.codec, client.version, response)
        wait_ms = quotas.managers.share_fetched(user, client_id, size_bytes, use.used_ms())
    else:
        wait_ms = quotas.managers.handled(user, client_id, use.used_ms(), getattr(response, "throttle_time_ms", 0))
    if wait_ms:
        mute(wait_ms)
        if hasattr(response, "throttle_time_ms"):
            # Copy the response, because the handler may keep it.
            response = msgspec.structs.replace(response, throttle_time_ms=wait_ms)
    return response


class _Use:
    """Measures the time of one request on the event loop. Waits, and the steps of other requests, do not count."""

    __slots__ = ("_began_ms", "_clock", "_quotas", "_used_ms")

    def __init__(self, quotas: ClientQuotaEnforcement, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._used_ms = 0.0
        self._began_ms: float | None = None

    def used_ms(self) -> float:
        now_ms = 0.0 if self._began_ms is None else self._clock.monotonic_ms() - self._began_ms
        return max(LEAST_MS, self._used_ms + now_ms)

    @types.coroutine
    def measure(self, handled: Steps[Any]) -> Generator[Step, None, Any]:
        failure: Exception | None = None
        try:
            while True:
                earlier: Meter | None = self._quotas.meter
                self._quotas.meter, self._began_ms = self, self._clock.monotonic_ms()
                try:
                    step = handled.send(None) if failure is None else handled.throw(failure)
                except StopIteration as ended:
                    return ended.value
                finally:
                    self._used_ms, self._began_ms, self._quotas.meter = self.used_ms(), None, earlier
                failure = None
                try:
                    yield step
                except Exception as error:
                    failure = error
        finally:
            handled.close()
