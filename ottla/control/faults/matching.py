"""Decides whether a fault matches a request or a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from ottla.broker.hooks.interception import IncomingRequest, Point, Reached
from ottla.control.faults.api_names import api_key, versions
from ottla.control.faults.fault import WAYS, Fault
from ottla.control.faults.request_targets import NamedPlace, groups, places, transactional_ids

CONSOLE_CLIENT_ID = "ottla-console"
"""The client id with which the console reads records."""
HANDLE_CLIENT_ID = "ottla-handle"
"""The client id of `ottla.Broker`, `ottla.Cluster` and the pytest plugin."""
OWN_CLIENT_IDS = frozenset((CONSOLE_CLIENT_ID, HANDLE_CLIENT_ID))
"""The client ids of ottla's own clients. Only a fault with exactly the same client id hits them: a test's counts must not depend on
a browser that shows the console, and a test with a fault on Fetch must still be able to read records through `ottla.Broker`."""


def is_like(name: str, pattern: str | None) -> bool:
    """Whether a name matches a shell pattern. Pattern None matches every name. A name always matches itself, even if it contains
    brackets."""
    return pattern is None or name == pattern or fnmatchcase(name, pattern)


class Matcher:
    """The conditions of one fault, of which the cheapest are checked first."""

    __slots__ = ("_fault", "_versions", "is_final", "key", "names_places")

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.key = api_key(fault.api)
        """The key of the fault's API, or None for any."""
        self._versions = None if fault.version is None else versions(fault.version)
        self.names_places = fault.topic is not None or fault.partition is not None
        """Whether the fault only matches certain topics or partitions."""
        self.is_final = any(getattr(fault, name) not in (None, False) for name in WAYS if name != "observe")
        """Whether a hit of this fault determines the outcome of a request. If so, faults that were added later are not checked."""

    def matches(self, incoming: IncomingRequest) -> bool:
        fault = self._fault
        if self._versions is not None and not self._versions[0] <= incoming.version <= self._versions[1]:
            return False
        if not is_like(incoming.client_id, fault.client_id):
            return False
        if incoming.client_id in OWN_CLIENT_IDS and incoming.client_id != fault.client_id:
            return False
        if fault.fields and any(getattr(incoming.request, name) != value for name, value in fault.fields.items()):
            return False
        if fault.transactional_id is not None and not _any_like(transactional_ids(incoming), fault.transactional_id):
            return False
        if fault.group is not None and not _any_like(groups(incoming), fault.group):
            return False
        return not self.names_places or any(map(self.matches_place, places(incoming)))

    def matches_place(self, place: NamedPlace) -> bool:
        """Whether a topic or partition of a request matches. In ``place`` None means all topics or all partitions, and always
        matches."""
        fault = self._fault
        if place.topic is not None and not is_like(place.topic, fault.topic):
            return False
        return fault.partition is None or place.partition is None or place.partition == fault.partition

    def matches_point(self, reached: Reached) -> bool:
        fault = self._fault
        if not is_like(reached.transactional_id, fault.transactional_id):
            return False
        if reached.point is Point.BETWEEN_MARKERS and reached.markers_written != fault.after_markers:
            return False
        return not self.names_places or self.matches_place(NamedPlace(reached.topic, reached.partition))


def _any_like(names: Iterable[str], pattern: str) -> bool:
    return any(is_like(name, pattern) for name in names)
