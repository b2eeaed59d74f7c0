"""The ids of members that come without one (java.util.UUID, and Uuid.randomUuid of Kafka)."""

from __future__ import annotations

import uuid

from ottla.coordinator.group.member_ids import member_ids


def test_a_classic_member_has_a_uuid_of_version_4() -> None:
    text = member_ids(lambda: b"\xff" * 16).classic()
    assert len(text) == 36
    assert uuid.UUID(text).version == 4


def test_a_consumer_has_22_characters_that_begin_with_no_dash() -> None:
    given = iter([b"\xff" * 16, b"\xfb" + bytes(15), b"\x04" + bytes(15)])
    ids = member_ids(lambda: next(given))
    assert [ids.consumer(), ids.consumer()] == ["_" * 21 + "w", "BAAAAAAAAAAAAAAAAAAAAA"]
