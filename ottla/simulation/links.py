"""The network between hosts: random delays, split writes, cuts of one or both directions, machines without power.

Each direction of a connection delivers data in the order of sending.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.simulation.network import End, Send
from ottla.simulation.scheduler import Scheduler

DELAY_MS = (0.05, 1.0)
SLOW_SHARE = 0.02
"""The share of deliveries with an additional delay of up to `SLOW_MS`."""
SLOW_MS = 60.0
PIECES_SHARE = 0.03
"""The share of writes that arrive in two pieces."""
RETRANSMISSION_MS = (20.0, 250.0)
"""Minimum and maximum time, in ms, from the end of a cut until data that was held back arrives."""

WOKEN_MS = (0.0, 0.1)
"""Minimum and maximum delay, in ms, before a resumed process receives the data that arrived during its pause."""

Accept = Callable[[], asyncio.BaseProtocol]


class _Channel:
    """One direction of a connection. A cut only delays data, because TCP retransmits it."""

    __slots__ = ("_at_ms", "_held", "_links", "_waiting", "_way")

    def __init__(self, links: Links, way: tuple[str, str]) -> None:
        self._links = links
        self._way = way
        self._at_ms = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self._held: deque[Callable[[], None]] = deque()

    def __call__(self, deliver: Callable[[], None]) -> None:
        self._waiting.append(deliver)
        self._schedule(self._links.delay_ms())

    @property
    def target(self) -> str:
        return self._way[1]

    def _schedule(self, delay_ms: float) -> None:
        scheduler = self._links.scheduler
        self._at_ms = max(self._at_ms, scheduler.now_ms + delay_ms)
        scheduler.call_later(self._at_ms - scheduler.now_ms, self._deliver)

    def _deliver(self) -> None:
        deliver = self._waiting.popleft()
        if self._held or self._links.is_cut(*self._way):
            self._links.hold(self)
            self._held.append(deliver)
        else:
            deliver()

    def release(self, delay_ms: tuple[float, float] = RETRANSMISSION_MS) -> None:
        """Schedule the delivery of data that a cut has held back, before data that is still in transit."""
        for _ in self._held:
            self._schedule(self._links.rng.uniform(*delay_ms))
        self._waiting.extendleft(reversed(self._held))
        self._held.clear()


class Links:
    """The listeners of all hosts, and the network between them. A host is identified by its name. A cut blocks one direction
    between two hosts.
    """

    def __init__(self, scheduler: Scheduler, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.rng = rng
        self.slowness = 1.0
        """Factor by which all delays are currently multiplied."""
        self._listening: dict[tuple[str, int], Accept] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._holding: dict[_Channel, None] = {}
        self._ends: dict[str, list[End]] = {}
        self.is_down: set[str] = set()
        """Hosts without power, to which all data is lost. Never iterated, because the order of a set is not repeatable."""
        self._is_frozen: set[str] = set()
        """Hosts whose process is paused. Never iterated, like `is_down`."""
        self.refused = 0

    def delay_ms(self) -> float:
        rng = self.rng
        delay_ms = DELAY_MS[0] + rng.random() * DELAY_MS[1]
        if rng.random() < SLOW_SHARE:
            delay_ms += rng.random() * SLOW_MS
        return delay_ms * self.slowness

    # cutting connections between hosts

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts or target in self.is_down or target in self._is_frozen

    def cut(self, source: str, target: str) -> None:
        """Cut one direction between two hosts. Each `cut` needs its own `heal`."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        left = self._cuts.get((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
        elif left == 0:
            del self._cuts[source, target]
            self.release()

    def cuts(self) -> list[tuple[str, str]]:
        """Return each cut direction as often as it was cut."""
        return [way for way, count in self._cuts.items() for _ in range(count)]

    def hold(self, channel: _Channel) -> None:
        self._holding[channel] = None

    def release(self) -> None:
        """Retry the delivery of all data that was held back. Directions that are still cut hold back their data again."""
        holding, self._holding = self._holding, {}
        for channel in holding:
            channel.release()

    def freeze(self, host: str) -> None:
        """Hold back all data to a host whose process is paused."""
        self._is_frozen.add(host)

    def thaw(self, host: str) -> None:
        """Deliver the data that was held back while the host's process was paused."""
        self._is_frozen.discard(host)
        if host not in self.is_down:
            for channel in [channel for channel in self._holding if channel.target == host]:
                del self._holding[channel]
                channel.release(WOKEN_MS)

    # listeners and connections of hosts

    def listen(self, host: str, port: int, accept: Accept) -> Callable[[], object]:
        """Start listening. Returns a function that stops listening."""
        self._listening[host, port] = accept
        return lambda: self._listening.pop((host, port), None)

    def close_host(self, host: str, *, without_a_word: bool) -> None:
        """Close a host's connections when its process has ended. ``without_a_word``, after a power cut, peers are not notified."""
        for key in [key for key in self._listening if key[0] == host]:
            del self._listening[key]
        for end in self._ends.pop(host, []):
            if without_a_word:
                end.vanish()
            else:
                end.close()

    def dial(
        self,
        source: str,
        host: str,
        port: int,
        factory: Callable[[], asyncio.BaseProtocol],
        refused: Callable[[], None],
    ) -> None:
        """Connect to a listener. If a direction is cut, no function is called, and the caller must time out by itself."""

        def arrived() -> None:
            if self.is_cut(source, host) or self.is_cut(host, source):
                return
            accept = self._listening.get((host, port))
            if accept is None:
                self.refused += 1
                self.scheduler.call_later(self.delay_ms(), refused)
                return
            call_soon = self.scheduler.call_soon
            near = End(factory(), call_soon, self._pieces(_Channel(self, (source, host))), host)
            far = End(accept(), call_soon, self._pieces(_Channel(self, (host, source))), source)
            for place, end in ((source, near), (host, far)):
                ends = self._ends.setdefault(place, [])
                ends.append(end)
                ends[:] = [one for one in ends if not one.is_closed]
            far.joined_to(near).open()
            near.joined_to(far).open()

        self.scheduler.call_later(self.delay_ms(), arrived)

    def _pieces(self, channel: _Channel) -> Send:
        rng = self.rng

        def send(deliver: Callable[[], None]) -> None:
            if isinstance(deliver, partial) and rng.random() < PIECES_SHARE:
                (data,) = deliver.args
                cut = rng.randrange(len(data) + 1)
                channel(partial(deliver.func, data[:cut]))
                channel(partial(deliver.func, data[cut:]))
            else:
                channel(deliver)

        return send
