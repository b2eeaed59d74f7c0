"""The registry's API without a broker: subjects, versions, ids, levels, modes, deletion and references, with Confluent's codes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from ottla.registry.comparison import Comparison
from ottla.registry.compilations import Compilations
from ottla.registry.errors import RegistryError
from ottla.registry.formats import types
from ottla.registry.formats.parsed import Parsed
from ottla.registry.records import version_record
from ottla.registry.request import RegistryRequest, parsed_target
from ottla.registry.schema_text import NamedText, SchemaText, Version
from ottla.registry.state import RegistryState
from tests.registry.stored import StoredRegistry, record

pytest.importorskip("avro")

ONE, TWO = record("A", "a:int"), record("A", "a:int", 'b:string=""')


@pytest.fixture
def registry() -> Iterator[StoredRegistry]:
    """A registry whose state equals a replay of its records after each test."""
    made = StoredRegistry()
    yield made
    assert _content(made.log.state) == _content(made.log.replayed())


def _content(state: RegistryState) -> object:
    return state.subjects, state.levels, state.modes, state.size_bytes, state._ids


def test_subjects_share_schema_ids_but_not_versions(registry: StoredRegistry) -> None:
    assert [registry.register("a", ONE), registry.register("a", TWO), registry.register("b", TWO)] == [1, 2, 2]
    assert registry.ask("GET", "/subjects") == ["a", "b"]
    assert registry.ask("GET", "/subjects/a/versions") == [1, 2]
    assert registry.ask("GET", "/subjects/b/versions/latest")["version"] == 1
    assert registry.ask("GET", "/schemas/ids/2/versions") == [{"subject": "a", "version": 2}, {"subject": "b", "version": 1}]
    assert registry.ask("GET", "/schemas/ids/2/subjects") == ["a", "b"]
    assert registry.ask("GET", "/schemas/ids/1?fetchMaxId=true")["maxId"] == 2
    assert json.loads(registry.ask("GET", "/schemas/ids/1/schema")) == ONE
    assert [v["id"] for v in registry.ask("GET", "/schemas?latestOnly=true")] == [2, 2]
    assert [v["id"] for v in registry.ask("GET", "/schemas?offset=1&limit=1")] == [2]


def test_schemas_that_differ_only_in_white_space_get_the_same_id(registry: StoredRegistry) -> None:
    assert registry.register("a", json.dumps(ONE, indent=4)) == 1
    assert registry.register("a", json.dumps(ONE, separators=(",", ":"))) == 1
    assert registry.ask("POST", "/subjects/a", {"schema": json.dumps(dict(reversed(ONE.items())))})["version"] == 1
    assert registry.ask("GET", "/subjects/a/versions/1/schema") == json.dumps(ONE, separators=(",", ":"))
    assert len(registry.log.records) == 1


def test_schema_lookup_distinguishes_unknown_subject_and_unknown_schema(registry: StoredRegistry) -> None:
    assert registry.code("POST", "/subjects/a", {"schema": '"int"'}) == 40401
    registry.register("a", ONE)
    assert registry.code("POST", "/subjects/a", {"schema": '"int"'}) == 40403


def test_incompatible_schema_is_refused_and_changes_nothing(registry: StoredRegistry) -> None:
    registry.register("a", ONE)
    narrower = record("A", "a:int", "b:string")
    assert registry.code("POST", "/subjects/a/versions", {"schema": json.dumps(narrower)}) == 409
    body = {"schema": json.dumps(narrower)}
    assert registry.ask("POST", "/compatibility/subjects/a/versions/latest", body) == {"is_compatible": False}
    verbose = registry.ask("POST", "/compatibility/subjects/a/versions?verbose=true", body)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: b" in verbose["messages"][0]
    assert registry.ask("PUT", "/config/a", {"compatibility": "forward"}) == {"compatibility": "FORWARD"}
    assert registry.register("a", narrower) == 2


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", True),
        ("BACKWARD", True),
        ("BACKWARD_TRANSITIVE", False),
        ("FORWARD", False),
        ("FULL", False),
        ("FULL_TRANSITIVE", False),
    ],
)
def test_transitive_compatibility_levels_compare_with_all_versions(registry: StoredRegistry, level: str, allowed: bool) -> None:
    registry.ask("PUT", "/config/a", {"compatibility": "NONE"})
    registry.register("a", record("A", "a:string"))
    registry.register("a", record("A", "a:int"))
    registry.ask("PUT", "/config/a", {"compatibility": level})
    wider = json.dumps(record("A", "a:long"))
    assert registry.ask("POST", "/compatibility/subjects/a/versions", {"schema": wider})["is_compatible"] is allowed


def test_no_schema_is_parsed_while_the_registry_log_is_locked(registry: StoredRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, original = [], types.parse

    def parse(kind: str, text: str, references: Sequence[NamedText]) -> Parsed:
        assert not registry.log.is_held
        parsed.append(text)
        return original(kind, text, references)

    monkeypatch.setattr(types, "parse", parse)
    registry.register("a", ONE)
    registry.register("a", TWO)
    body = {"schema": json.dumps(ONE)}
    assert registry.ask("POST", "/compatibility/subjects/a/versions", body) == {"is_compatible": True}
    assert registry.ask("POST", "/compatibility/subjects/a/versions/1", body) == {"is_compatible": True}
    assert parsed


def test_schema_is_compared_again_if_its_subject_changed_during_the_comparison(
    registry: StoredRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("a", ONE)
    compared_with = []
    original = Compilations.incompatible

    def compared(compilations: Compilations, comparison: Comparison) -> list[str]:
        found = original(compilations, comparison)
        compared_with.append([number for number, _ in comparison.old])
        if len(compared_with) == 1:
            # Let another client register a schema after the first comparison.
            registry.ask("PUT", "/config/a", {"compatibility": "NONE"})
            registry.register("a", record("A", "a:string"))
            registry.ask("PUT", "/config/a", {"compatibility": "BACKWARD"})
        return found

    monkeypatch.setattr(Compilations, "incompatible", compared)
    assert registry.code("POST", "/subjects/a/versions", {"schema": json.dumps(TWO)}) == 409
    # The schema that another client registered meanwhile, at the level NONE, caused the comparison with version 2.
    assert compared_with == [[1], [], [2]]


def test_digest_of_a_schema_is_computed_once_per_version_and_request(registry: StoredRegistry) -> None:
    computed = []

    def counted(schema: SchemaText) -> bytes:
        computed.append(schema)
        return types.identity(schema)

    registry.log.state.identity = counted
    for number in range(10):
        registry.register("a", record("A", *(f'f{i}:string=""' for i in range(number))))
    registry.ask("POST", "/subjects/a", {"schema": json.dumps(record("A"))})
    registry.ask("DELETE", "/subjects/a")
    # A registration is decided twice: before and after the comparison.
    assert len(computed) <= 3 * 10 + 1


def test_soft_deletion_hides_a_schema_version_and_hard_deletion_removes_it(registry: StoredRegistry) -> None:
    registry.register("a", ONE)
    registry.register("a", TWO)
    assert registry.code("DELETE", "/subjects/a?permanent=true") == 40405
    assert registry.code("DELETE", "/subjects/a/versions/1?permanent=true") == 40407
    assert registry.ask("DELETE", "/subjects/a/versions/1") == 1
    assert registry.code("DELETE", "/subjects/a/versions/1") == 40406
    assert registry.code("GET", "/subjects/a/versions/1") == 40402
    assert registry.ask("GET", "/subjects/a/versions/1?deleted=true")["deleted"] is True
    assert registry.ask("GET", "/schemas/ids/1")
    assert registry.ask("DELETE", "/subjects/a") == [2]
    assert registry.code("DELETE", "/subjects/a") == 40404
    assert registry.ask("GET", "/subjects") == []
    assert registry.ask("GET", "/subjects?deletedOnly=true") == registry.ask("GET", "/subjects?deleted=true") == ["a"]
    assert registry.ask("DELETE", "/subjects/a?permanent=true") == [1, 2]
    assert registry.code("GET", "/schemas/ids/1") == 40403
    assert registry.code("DELETE", "/subjects/a?permanent=true") == 40401
    assert registry.register("a", ONE) == 3
    assert registry.ask("GET", "/subjects/a/versions") == [1]


def test_deleted_schema_that_is_registered_again_gets_its_id_and_a_new_version(registry: StoredRegistry) -> None:
    registry.register("a", ONE)
    registry.ask("DELETE", "/subjects/a")
    assert registry.register("a", ONE) == 1
    assert registry.ask("GET", "/subjects/a/versions") == [2]
    assert registry.ask("GET", "/subjects/a/versions?deleted=true") == [1, 2]


def test_deletion_of_a_subject_removes_its_compatibility_level_and_mode(registry: StoredRegistry) -> None:
    registry.register("a", ONE)
    registry.ask("PUT", "/config/a", {"compatibility": "NONE"})
    registry.ask("DELETE", "/subjects/a")
    assert registry.code("GET", "/config/a") == 40408


def test_referenced_schema_cannot_be_deleted(registry: StoredRegistry) -> None:
    registry.register("address", record("Address", "street:string", namespace="shop"))
    reference = {"name": "shop.Address", "subject": "address", "version": 1}
    order = record("Order", "to:shop.Address", namespace="shop")
    assert registry.code("POST", "/subjects/order/versions", {"schema": json.dumps(order)}) == 42201
    assert registry.register("order", order, references=[reference]) == 2
    assert registry.ask("GET", "/subjects/order/versions/1")["references"][0].subject == "address"
    assert registry.ask("GET", "/subjects/address/versions/1/referencedby") == [2]
    assert registry.code("DELETE", "/subjects/address") == 42206
    assert registry.code("DELETE", "/subjects/address/versions/1") == 42206
    missing = {**reference, "version": 2}
    assert registry.code("POST", "/subjects/o/versions", {"schema": json.dumps(order), "references": [missing]}) == 42201
    registry.ask("DELETE", "/subjects/order")
    assert registry.ask("DELETE", "/subjects/address") == [1]


def test_readonly_mode_refuses_changes_and_import_mode_accepts_given_schema_ids(registry: StoredRegistry) -> None:
    registry.register("a", ONE)
    assert registry.ask("PUT", "/mode/a", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert registry.code("POST", "/subjects/a/versions", {"schema": json.dumps(TWO)}) == 42205
    assert registry.code("DELETE", "/subjects/a") == 42205
    assert registry.ask("DELETE", "/mode/a") == {"mode": "READONLY"}
    assert registry.code("GET", "/mode/a") == 40409
    assert registry.ask("GET", "/mode/a?defaultToGlobal=true") == {"mode": "READWRITE"}
    assert registry.code("PUT", "/mode", {"mode": "IMPORT"}) == 42205
    assert registry.code("PUT", "/mode", {"mode": "WHAT"}) == 42204
    assert registry.ask("PUT", "/mode?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}
    body = {"schema": '"string"', "id": 100, "version": 7}
    assert registry.ask("POST", "/subjects/b/versions", body) == {"id": 100}
    assert registry.ask("GET", "/subjects/b/versions") == [7]
    assert registry.code("POST", "/subjects/b/versions", {"schema": '"int"', "id": 100}) == 42207
    assert registry.code("POST", "/subjects/b/versions", {"schema": '"int"'}) == 42205
    registry.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert registry.code("POST", "/subjects/b/versions", body | {"id": 101}) == 42205
    assert registry.register("c", '"long"') == 101


def test_registered_schema_with_a_version_must_have_the_next_version_of_its_subject(registry: StoredRegistry) -> None:
    registry.ask("PUT", "/config", {"compatibility": "NONE"})
    assert registry.ask("POST", "/subjects/a/versions", {"schema": '"int"', "version": 1}) == {"id": 1}
    for version in (1, 3):
        assert registry.code("POST", "/subjects/a/versions", {"schema": '"long"', "version": version}) == 42201
    assert registry.ask("POST", "/subjects/a/versions", {"schema": '"int"', "version": 9}) == {"id": 1}
    assert registry.ask("POST", "/subjects/a/versions", {"schema": '"long"', "version": 2}) == {"id": 2}
    assert registry.ask("GET", "/subjects/a/versions/1")["schema"] == '"int"'
    assert registry.ask("GET", "/subjects/a/versions") == [1, 2]


def test_compatibility_levels_are_set_per_subject_or_globally(registry: StoredRegistry) -> None:
    assert registry.ask("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.code("GET", "/config/a") == 40408
    assert registry.ask("GET", "/config/a?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    assert registry.ask("PUT", "/config", {"compatibility": "FULL"}) == {"compatibility": "FULL"}
    assert registry.ask("PUT", "/config/a", {"compatibility": "NONE", "normalize": True})["normalize"] is True
    assert registry.ask("DELETE", "/config/a")["compatibilityLevel"] == "NONE"
    assert registry.code("PUT", "/config", {"compatibility": "WHAT"}) == 42203
    assert registry.code("PUT", "/config", {"compatibility": "FULL", "alias": "x"}) == 42203
    assert registry.code("PUT", "/config", [1]) == 42203
    assert registry.ask("GET", "/config") == {"compatibilityLevel": "FULL"}


@pytest.mark.parametrize(
    ("method", "target", "body", "code"),
    [
        ("GET", "/subjects/none/versions", None, 40401),
        ("GET", "/subjects/none/versions/1", None, 40401),
        ("GET", "/subjects/a/versions/0", None, 42202),
        ("GET", "/subjects/a/versions/x", None, 42202),
        ("GET", "/subjects/a/versions/99999999999999999999", None, 42202),
        ("GET", "/subjects/a/versions/2", None, 40402),
        ("GET", "/schemas/ids/999", None, 40403),
        ("GET", "/schemas/ids/x", None, 404),
        ("GET", "/what", None, 404),
        ("GET", "/contexts/.x/subjects", None, 404),
        ("PATCH", "/subjects/a", None, 405),
        ("POST", "/subjects/a/versions", None, 422),
        ("POST", "/subjects/a/versions", [1], 422),
        ("POST", "/subjects/a/versions", {"schema": 1}, 422),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "schemaType": "XML"}, 422),
        ("POST", "/subjects/a/versions", {"schema": "{"}, 42201),
        ("POST", "/subjects/a/versions", {"schema": '"what"'}, 42201),
        ("POST", "/subjects/a/versions", {"schema": "[" * 100_000}, 42201),
        ("POST", "/subjects/:.ctx:a/versions", {"schema": '"int"'}, 42208),
        ("POST", "/subjects/%00/versions", {"schema": '"int"'}, 42208),
        ("POST", f"/subjects/{'x' * 1_001}/versions", {"schema": '"int"'}, 42208),
        ("GET", "/subjects?" + "a=1&" * 30, None, 422),
    ],
)
def test_refused_registry_requests_have_confluents_error_codes(
    registry: StoredRegistry, method: str, target: str, body: object, code: int
) -> None:
    registry.register("a", ONE)
    assert registry.code(method, target, body) == code
    assert len(registry.log.records) == 1


def test_registry_subject_may_contain_an_escaped_slash(registry: StoredRegistry) -> None:
    registry.register("google%2Ftype%2Fdate.proto", ONE)
    assert registry.ask("GET", "/subjects") == ["google/type/date.proto"]
    assert registry.ask("GET", "/subjects/:.:google%2Ftype%2Fdate.proto/versions") == [1]


def test_total_size_of_all_registered_schemas_is_limited(registry: StoredRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.registry.commands.MAX_SCHEMAS_BYTES", 100)
    registry.register("a", ONE)
    assert registry.code("POST", "/subjects/b/versions", {"schema": json.dumps(record("B", "a:int", "b:int"))}) == 42209


def test_schema_registry_returns_its_contexts_schema_types_and_cluster_id(registry: StoredRegistry) -> None:
    assert registry.ask("GET", "/") == {}
    assert registry.ask("GET", "/contexts") == ["."]
    assert list(registry.ask("GET", "/schemas/types")) == ["JSON", "PROTOBUF", "AVRO"]
    assert registry.ask("GET", "/v1/metadata/id")["scope"]["clusters"]["kafka-cluster"] == "the-cluster"


def _put(registry: StoredRegistry, subject: str, version: int, schema_id: int, text: str = '"int"') -> None:
    """Store a version that another program has written."""
    schema = SchemaText(kind="AVRO", text=text)
    registry.log.append([version_record(Version(subject=subject, version=version, schema_id=schema_id, schema=schema))])


def test_no_schema_id_is_allocated_beyond_four_bytes(registry: StoredRegistry) -> None:
    _put(registry, "foreign", 1, 2**31 - 1)
    assert registry.register("a", "int") == 2**31 - 1
    with pytest.raises(RegistryError, match="no schema id is left, because 2147483647 is used") as error:
        registry.register("b", ONE)
    assert error.value.code == 42209
    registry.ask("PUT", "/mode/b", {"mode": "IMPORT"})
    assert registry.code("POST", "/subjects/b/versions", {"schema": json.dumps(ONE), "id": 2**31}) == 422
    assert registry.code("POST", "/subjects/b/versions", {"schema": json.dumps(ONE), "id": 5, "version": 2**31}) == 42202
    assert registry.register("b", ONE, id=5) == 5


def test_no_schema_version_is_allocated_beyond_the_maximum(registry: StoredRegistry) -> None:
    _put(registry, "a", 2**31 - 1, 1)
    with pytest.raises(RegistryError, match="subject 'a' has no version left"):
        registry.register("a", "long")


def test_error_for_an_invalid_stored_schema_names_its_version(registry: StoredRegistry) -> None:
    registry.register("a", "int")
    _put(registry, "a", 2, 2, '{"type":"nonsense"}')
    with pytest.raises(RegistryError, match=r"the stored version 2, with which .* is not valid; delete that version"):
        registry.register("a", "long")
    registry.ask("DELETE", "/subjects/a/versions/2")
    assert registry.register("a", "long") == 3


def test_registry_subject_that_is_not_utf8_is_refused(registry: StoredRegistry) -> None:
    assert registry.code("POST", "/subjects/%ff/versions", {"schema": '"int"'}) == 42208
    assert registry.code("GET", "/config/a%c3") == 42208


def test_too_deeply_nested_request_body_of_the_registry_is_refused(registry: StoredRegistry) -> None:
    path, query = parsed_target("/config")
    with pytest.raises(RegistryError, match="the body is nested too deeply"):
        registry.routes.answer(RegistryRequest(method="PUT", path=path, query=query, body=b"[" * 100_000))
