"""Random UUIDs and their text form, as in org.apache.kafka.common.Uuid."""

from __future__ import annotations

import uuid

import pytest

from ottla.broker.loop.env import RealEnv
from ottla.container import image as container
from ottla.protocol.uuids import parse_uuid, typeable_uuid, uuid_text

DASHED, PLAIN = uuid.UUID(bytes=b"\xfb" * 16), uuid.UUID(bytes=b"\x01" * 16)


def test_uuid_is_printed_as_url_safe_base64() -> None:
    assert uuid_text(DASHED.bytes) == "-_v7-_v7-_v7-_v7-_v7-w"
    assert parse_uuid(uuid_text(DASHED.bytes)) == DASHED.bytes
    with pytest.raises(ValueError, match="'AAAA' is not a UUID"):
        parse_uuid("AAAA")


def test_generated_uuid_never_begins_with_a_dash() -> None:
    given = iter([DASHED, DASHED, PLAIN])
    assert typeable_uuid(lambda: next(given).bytes) == PLAIN.bytes


def test_uuids_of_broker_and_image_never_begin_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    # kafka-storage parses a cluster id that begins with a dash as an option, and then fails because the cluster id is missing.
    given = iter([DASHED, PLAIN] * 2)
    monkeypatch.setattr(uuid, "uuid4", lambda: next(given))
    assert RealEnv().random_uuid() == PLAIN.bytes
    assert container.storage(["random-uuid"], {}) == uuid_text(PLAIN.bytes)
