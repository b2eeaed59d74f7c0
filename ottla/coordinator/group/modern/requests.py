"""A heartbeat in consumer, streams and share groups: Kafka's own message, and the client that sent it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

import msgspec

R = TypeVar("R")


class Heartbeat(msgspec.Struct, Generic[R], frozen=True):
    """A member's heartbeat, with the client that sent it and the request version. Request fields that have not changed are None.

    ``owned`` are the partitions that a member of a consumer group lists as its own, None if it lists none. The broker reads them in
    steps, because there may be very many.
    """

    request: R
    client_id: str = ""
    client_host: str = ""
    version: int = 1
    owned: Mapping[bytes, frozenset[int]] | None = None
