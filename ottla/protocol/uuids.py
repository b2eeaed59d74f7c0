"""Kafka's UUIDs as text and as bytes (org.apache.kafka.common.Uuid)."""

from __future__ import annotations

import base64
from collections.abc import Callable

from ottla.protocol.primitives import NO_UUID


def uuid_text(uuid: bytes) -> str:
    """Kafka's spelling of a UUID of 16 bytes: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a UUID. Raises ValueError."""
    uuid = base64.urlsafe_b64decode(text + "==")
    if len(uuid) != len(NO_UUID):
        raise ValueError(f"{text!r} is not a UUID")
    return uuid


def typeable_uuid(random_uuid: Callable[[], bytes]) -> bytes:
    """A UUID whose text does not begin with a dash.

    ``random_uuid`` returns 16 random bytes. Kafka avoids a leading dash, because its tools take such an argument for an option; one
    in 64 random ids begins with a dash.
    """
    while True:
        uuid = random_uuid()
        if not uuid_text(uuid).startswith("-"):
            return uuid
