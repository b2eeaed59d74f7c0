"""Member ids that the broker generates: java.util.UUID in classic groups, Kafka's Uuid.randomUuid in consumer groups."""

from __future__ import annotations

import uuid

from ottla.coordinator.group.member_ids import member_ids


def test_classic_member_id_contains_a_version_4_uuid() -> None:
    text = member_ids(lambda: b"\xff" * 16).classic()
    assert len(text) == 36
    assert uuid.UUID(text).version == 4


def test_consumer_member_id_has_22_characters_and_no_leading_dash() -> None:
    given = iter([b"\xff" * 16, b"\xfb" + bytes(15), b"\x04" + bytes(15)])
    ids = member_ids(lambda: next(given))
    assert [ids.consumer(), ids.consumer()] == ["_" * 21 + "w", "BAAAAAAAAAAAAAAAAAAAAA"]
