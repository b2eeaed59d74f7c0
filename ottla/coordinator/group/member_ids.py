"""Generates member ids in Kafka's two formats, which tools and users recognise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.protocol.uuids import typeable_uuid, uuid_text


class MemberIds(NamedTuple):
    """Generators of ids. ``classic`` returns the part of a classic member id after the client id, ``consumer`` a whole id."""

    classic: Callable[[], str]
    consumer: Callable[[], str]


def member_ids(random_uuid: Callable[[], bytes]) -> MemberIds:
    """Create the generators. ``random_uuid`` returns 16 random bytes. Consumer ids are formatted like
    org.apache.kafka.common.Uuid."""
    return MemberIds(lambda: _java_uuid(random_uuid()), lambda: uuid_text(typeable_uuid(random_uuid)))


def _java_uuid(random_bytes: bytes) -> str:
    digits = f"{int.from_bytes(random_bytes) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
