"""Protobuf schemas as text and as descriptors, compared by the rules of the language guide."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_tools")

from google.protobuf import duration_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from ottla.registry.errors import RegistryError
from ottla.registry.formats.protobuf_compatibility import unreadable
from ottla.registry.formats.protobuf_schema import parse_protobuf
from ottla.registry.formats.protobuf_text import printed
from ottla.registry.formats.protobuf_tokens import tokens
from ottla.registry.schema_text import NamedText

pytestmark = pytest.mark.heavy

REFERENCE = Path(__file__).parents[1] / "reference"
SCHEMAS: list[str] = json.loads((REFERENCE / "protobuf_schemas.json").read_text())
RICH = """\
// A comment.
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/empty.proto";
option java_package = "com.shop";
option optimize_for = SPEED;
message Order {
  option deprecated = true;
  reserved 5, 7 to 9, 1000 to max;
  reserved "old", "older";
  string id = 1 [deprecated = true, json_name = "ID"];
  optional int32 count = 2;
  repeated int64 numbers = 3 [packed = false];
  map<string, Line> lines = 4;
  oneof payment { string card = 10; bool cash = 11; }
  google.protobuf.Timestamp at = 12;
  message Line { State state = 1; }
  enum State { option allow_alias = true; UNKNOWN = 0; NONE = 0; PAID = -1; }
}
enum Top { TOP_ZERO = 0; }
service Orders { rpc Get (Order) returns (stream Order); rpc Put (stream Order) returns (google.protobuf.Empty); }
"""
PROTO2 = """\
syntax = "proto2";
message A {
  required string a = 1 [default = "x\\"y"];
  optional int32 b = 2 [default = -5];
  repeated bytes c = 3;
  extensions 100 to 199;
  optional group G = 4 { optional int32 x = 1; }
}
extend A { optional string more = 100; }
"""


@pytest.mark.parametrize("text", [RICH, PROTO2.replace("  optional group G = 4 { optional int32 x = 1; }\n", "")])
def test_printed_protobuf_schema_compiles_to_the_same_descriptor(text: str) -> None:
    first = parse_protobuf(text, ())
    again = parse_protobuf(printed(first.file), ())
    assert printed(again.file) == again.text
    for file in (first.file, again.file):
        for message in file.message_type:
            # Printed fields of a oneof come after the other fields.
            message.field.sort(key=lambda field: field.number)
    assert again.file == first.file
    assert first.unreadable(again) == again.unreadable(first) == []


def test_protobuf_descriptor_in_base64_is_stored_as_schema_text() -> None:
    compiled = parse_protobuf(RICH, ())
    serialized = compiled.serialized()
    assert serialized is not None
    assert parse_protobuf(serialized, ()).text == printed(compiled.file)
    assert base64.b64decode(serialized) == compiled.file.SerializeToString()


def test_protobuf_imports_must_be_references() -> None:
    text = 'syntax = "proto3"; import "a/b.proto"; message A { pkg.B b = 1; }'
    other = NamedText(name="a/b.proto", text='syntax = "proto3"; package pkg; message B { int32 x = 1; }')
    assert parse_protobuf(text, [other]).file.dependency == ["a/b.proto"]
    own = NamedText(name="schema.proto", text='syntax = "proto3"; package pkg; message B { int32 x = 1; }')
    assert parse_protobuf(text.replace("a/b.proto", "schema.proto"), [own])
    with pytest.raises(RegistryError):
        parse_protobuf(text, ())


@pytest.mark.parametrize(
    "name", ["../x.proto", "/etc/x.proto", "a/../../x.proto", "a\\b.proto", "a\0.proto", "", "a//b.proto", "x" * 300]
)
def test_protobuf_reference_path_stays_in_the_temporary_directory(name: str) -> None:
    with pytest.raises(RegistryError, match="is not the path of an import"):
        parse_protobuf('syntax = "proto3";', [NamedText(name=name, text='syntax = "proto3";')])


def test_protobuf_reference_may_have_the_name_of_a_compiler_directory() -> None:
    text = 'syntax = "proto3"; import "out/x.proto"; import "descriptors"; message A { B b = 1; }'
    first = NamedText(name="out/x.proto", text='syntax = "proto3"; message B { int32 x = 1; }')
    second = NamedText(name="descriptors", text='syntax = "proto3"; message C { int32 x = 1; }')
    assert parse_protobuf(text, [first, second]).file.message_type[0].name == "A"
    below = NamedText(name="schema.proto/x.proto", text=first.text)
    assert parse_protobuf('syntax = "proto3"; import "schema.proto/x.proto"; message A { B b = 1; }', [below])


@pytest.mark.parametrize(
    "names", [("a", "a/b"), ("a/b", "a"), ("a", "a/b/c"), ("\udc80.proto",), ("é" * 200,), ("a/" * 5_000 + "b",)]
)
def test_protobuf_reference_names_that_are_no_files_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(RegistryError) as error:
        parse_protobuf('syntax = "proto3";', [NamedText(name=name, text='syntax = "proto3";') for name in names])
    assert error.value.code == 42201
    assert str(error.value).encode().count(b"\n") == 0
    assert "/tmp" not in str(error.value)


@pytest.mark.parametrize("text", ["\udc80", 'syntax = "proto3"; // \udc80'])
def test_protobuf_schema_with_a_lone_surrogate_is_refused(text: str) -> None:
    with pytest.raises(RegistryError) as error:
        parse_protobuf(text, ())
    assert error.value.code == 42201
    assert str(error.value).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "message",
        'syntax = "proto3"; message A { string a = 0; }',
        'syntax = "proto3"; message A { string a = 1; string b = 1; }',
        'syntax = "proto9"; message A {}',
        'syntax = "proto3"; import "none.proto";',
        'syntax = "proto3"; ' + "message A { " * 500 + "}" * 500,
        "\0\1\2",
    ],
)
def test_invalid_protobuf_schema_is_refused_with_a_one_line_error(text: str) -> None:
    if not text:
        return
    with pytest.raises(RegistryError) as error:
        parse_protobuf(text, ())
    assert error.value.code == 42201
    assert "\n" not in str(error.value)
    assert "/tmp" not in str(error.value)


def test_protobuf_tokens_ignore_comments_and_white_space() -> None:
    assert tokens('syntax="proto3";// x\n/* y\n */message A{string a=1;}') == tokens(
        'syntax = "proto3" ;\nmessage A { string a = 1 ; }'
    )
    assert tokens('option a = "// no comment";') != tokens('option a = "";')


def _unreadable(reader: str, writer: str) -> list[str]:
    texts = [f'syntax = "proto3"; message A {{ {text} }} enum E {{ ZERO = 0; }}' for text in (reader, writer)]
    new, old = (parse_protobuf(text, ()) for text in texts)
    return new.unreadable(old)


@pytest.mark.parametrize(
    ("reader", "writer", "is_accepted"),
    [
        ("string a = 1; int32 b = 2;", "string a = 1;", True),
        ("string a = 1;", "string a = 1; int32 b = 2;", True),
        ("string renamed = 1;", "string a = 1;", True),
        ("int64 a = 1;", "int32 a = 1;", True),
        ("E a = 1;", "int32 a = 1;", True),
        ("sint32 a = 1;", "int32 a = 1;", False),
        ("bytes a = 1;", "string a = 1;", True),
        ("string a = 1;", "int32 a = 1;", False),
        ("repeated string a = 1;", "string a = 1;", True),
        ("repeated int32 a = 1;", "int32 a = 1;", False),
        ("oneof o { string a = 1; }", "string a = 1;", True),
        ("oneof o { string a = 1; string b = 2; }", "string a = 1; string b = 2;", False),
        ("oneof o { string a = 1; string b = 2; }", "oneof o { string a = 1; } string b = 2;", False),
        ("oneof o { string a = 1; string b = 2; }", "oneof o { string a = 1; }", True),
        ("oneof o { string a = 1; }", "oneof o { string a = 1; string b = 2; }", False),
        ("map<string, int64> a = 1;", "map<string, int32> a = 1;", False),
        ("message B {} B a = 1;", "message C {} C a = 1;", False),
    ],
)
def test_compatibility_of_protobuf_schemas_follows_the_language_guide(reader: str, writer: str, is_accepted: bool) -> None:
    assert (_unreadable(reader, writer) == []) is is_accepted


def test_compatible_protobuf_schemas_keep_the_values_of_a_real_message() -> None:
    """Protobuf's own runtime reads everything that a schema is said to read, and loses no value of a field in both schemas."""
    files = [parse_protobuf(text, ()).file for text in SCHEMAS]
    pools = [_messages(file) for file in files]
    accepted, lost = 0, []
    for r, reader in enumerate(files):
        for w, writer in enumerate(files):
            if unreadable(reader, writer):
                continue
            accepted += 1
            for name, written_type in pools[w].items():
                for written in _samples(written_type):
                    read = pools[r][name].FromString(written.SerializeToString())
                    known = {field.number for field in read.DESCRIPTOR.fields}
                    if any(field.field_number in known for field in UnknownFieldSet(read)):
                        lost.append((SCHEMAS[r], SCHEMAS[w], str(written)))
    assert lost == []
    assert accepted > 200


def _messages(file: FileDescriptorProto) -> dict[str, Any]:
    """Return the classes of a file's top-level messages, by name."""
    pool = DescriptorPool()
    for module in (timestamp_pb2, duration_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found = pool.FindFileByName(file.name)
    return {name: GetMessageClass(descriptor) for name, descriptor in found.message_types_by_name.items()}


def _samples(kind: Any) -> Iterator[Any]:
    """Return messages with one field each, so that each member of a oneof occurs, and a message with all fields."""
    everything = kind()
    for field in kind.DESCRIPTOR.fields:
        single = kind()
        for message in (single, everything):
            _fill(message, field)
        if single.IsInitialized():
            yield single
    if everything.IsInitialized():
        yield everything


def _fill(message: Any, field: Any) -> None:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    value = getattr(message, field.name)
    if is_map:
        kind = field.message_type.fields_by_name["value"].cpp_type
        value["k"] = "v" if kind == field.CPPTYPE_STRING else 5
    elif field.message_type is not None:
        value.SetInParent()
    else:
        sample: Any = 1 if field.cpp_type != field.CPPTYPE_STRING else b"x" if field.type == field.TYPE_BYTES else "x"
        if hasattr(value, "append"):
            value.append(sample)
        else:
            setattr(message, field.name, sample)
