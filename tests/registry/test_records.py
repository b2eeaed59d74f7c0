"""Records of the topic ``_schemas`` have Confluent's bytes, and foreign records are ignored."""

from __future__ import annotations

import json

import pytest

from ottla.registry.formats.types import identity
from ottla.registry.records import CONFIG, DELETE_SUBJECT, MODE, subject_record, version_record, version_tombstone
from ottla.registry.schema_text import Reference, SchemaText, Version
from ottla.registry.state import RegistryState

CONFLUENTS = [
    ('{"keytype":"NOOP","magic":0}', None),
    ('{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
     '{"subject":"orders-value","version":1,"id":1,"schema":"\\"string\\"","deleted":false}'),
    ('{"keytype":"SCHEMA","subject":"orders-value","version":2,"magic":1}',
     '{"subject":"orders-value","version":2,"id":2,"md5":"x","schemaType":"JSON","references":[],"metadata":null,"ruleSet":null,'
     '"schema":"{}","schemaTags":null,"deleted":false}'),
    ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
    ('{"keytype":"MODE","subject":"orders-value","magic":0}', '{"mode":"READONLY"}'),
    ('{"keytype":"SCHEMA","subject":":.other:s","version":1,"magic":1}',
     '{"subject":":.other:s","version":1,"id":1,"schema":"\\"int\\"","deleted":false}'),
    ('{"keytype":"CONTEXT","tenant":"default","context":".","magic":0}', '{"tenant":"default","context":"."}'),
    ('{"keytype":"SCHEMA","subject":"users-value","version":1,"magic":1}',
     '{"subject":"users-value","version":1,"id":3,"schema":"\\"long\\"","deleted":true}'),
    ('{"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}', '{"subject":"orders-value","version":1}'),
]  # fmt: skip
"""Records as Confluent's registry writes them."""


def test_records_of_confluents_registry_are_read() -> None:
    state = RegistryState(identity)
    for key, value in CONFLUENTS:
        state.replay(key.encode(), None if value is None else value.encode())
    assert [(v.version, v.schema_id, v.schema.kind) for v in state.versions("orders-value")] == [(2, 2, "JSON")]
    assert [v.is_deleted for v in state.versions("users-value", deleted=True)] == [True]
    assert (state.level("orders-value"), state.mode("orders-value"), state.max_id) == ("FULL", "READONLY", 3)
    assert set(state.subjects) == {"orders-value", "users-value"}


def test_registry_records_have_the_bytes_of_confluents_registry() -> None:
    avro = Version(subject="a", version=1, schema_id=7, schema=SchemaText(kind="AVRO", text='"int"'))
    assert version_record(avro).key == b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'
    assert version_record(avro).value == b'{"subject":"a","version":1,"id":7,"schema":"\\"int\\"","deleted":false}'
    reference = Reference(name="x.proto", subject="x", version=2)
    proto = SchemaText(kind="PROTOBUF", text="t", references=(reference,))
    value = version_record(Version(subject="a", version=2, schema_id=8, schema=proto)).value
    assert value == (
        b'{"subject":"a","version":2,"id":8,"schemaType":"PROTOBUF","references":[{"name":"x.proto","subject":"x","version":2}],'
        b'"schema":"t","deleted":false}'
    )
    assert version_tombstone("a", 1).value is None
    assert subject_record(CONFIG, None, None).key == b'{"keytype":"CONFIG","subject":null,"magic":0}'
    deleted = subject_record(DELETE_SUBJECT, "a", {"subject": "a", "version": 2})
    assert deleted.key == b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}'
    assert deleted.value == b'{"subject":"a","version":2}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", b"{}"),
        (b"\xff\xfe", b"{}"),
        (b"[1]", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b"no json"),
        (b'{"keytype":"SCHEMA","subject":"s","version":1}', b'{"subject":"other","version":1,"id":1,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"s","version":"1"}', b'{"subject":"s","version":1,"id":1,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"s"}', b'{"subject":"s","version":1,"id":1,"schema":"x"}'),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b"[]"),
        (b'{"keytype":"WHAT","subject":"s"}', b"{}"),
    ],
)
def test_malformed_registry_records_change_nothing(key: bytes | None, value: bytes | None) -> None:
    state = RegistryState(identity)
    state.replay(key, value)
    assert (state.subjects, state.levels, state.modes) == ({}, {}, {})


def test_schema_metadata_is_stored_as_it_was_sent() -> None:
    schema = SchemaText(kind="AVRO", text='"int"', metadata='{"properties":{"owner":"me"}}')
    value = version_record(Version(subject="a", version=1, schema_id=1, schema=schema)).value
    assert value is not None
    assert json.loads(value)["metadata"] == {"properties": {"owner": "me"}}


@pytest.mark.parametrize(("version", "schema_id"), [(1, 999_999_999_999), (1, 2**31), (1, 0), (1, -7), (-7, 1), (0, 1), (2**31, 1)])
def test_registry_record_with_an_out_of_range_number_is_ignored_and_logged(version: int, schema_id: int) -> None:
    state = RegistryState(identity)
    record = version_record(
        Version(subject="s", version=version, schema_id=schema_id, schema=SchemaText(kind="AVRO", text='"int"'))
    )
    reason = state.replay(record.key, record.value)
    assert (state.subjects, state.max_id) == ({}, 0)
    assert "of subject 's' is not between 1 and 2147483647" in str(reason)


@pytest.mark.parametrize("subject", [None, "s"])
@pytest.mark.parametrize("value", [b'{"compatibilityLevel":"ZZZ"}', b'{"compatibilityLevel":["NONE"]}', b"no json", b"[]"])
def test_unknown_compatibility_level_keeps_the_previous_level(subject: str | None, value: bytes) -> None:
    state = RegistryState(identity)
    known = subject_record(CONFIG, subject, {"compatibilityLevel": "FULL"})
    assert state.replay(known.key, known.value) is None
    assert "is not a compatibility level" in str(state.replay(known.key, value))
    assert state.level("s") == "FULL"


@pytest.mark.parametrize("value", [b'{"mode":"QQQ"}', b'{"mode":{}}', b"{}", b"no json"])
def test_unknown_registry_mode_keeps_the_previous_mode(value: bytes) -> None:
    state = RegistryState(identity)
    known = subject_record(MODE, None, {"mode": "READONLY"})
    assert state.replay(known.key, known.value) is None
    assert "of all subjects is not a mode" in str(state.replay(known.key, value))
    assert state.mode("s") == "READONLY"


def test_logged_reason_for_an_ignored_registry_record_is_short() -> None:
    record = subject_record(MODE, "s" * 10_000, {"mode": "\n" * 10_000})
    reason = str(RegistryState(identity).replay(record.key, record.value))
    assert len(reason) < 150
    assert "\n" not in reason
