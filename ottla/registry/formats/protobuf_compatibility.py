"""The rules by which one Protobuf schema reads all data of another: those of the language guide ("Updating A Message Type"). As in
Confluent's registry, a removed message and a changed package are also refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from ottla.registry.formats.protobuf_text import TYPES, type_of

_GROUPS: Final = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
"""Groups of field types whose encoding is compatible."""
_REPEATED: Final = FieldDescriptorProto.LABEL_REPEATED
_REQUIRED: Final = FieldDescriptorProto.LABEL_REQUIRED


def unreadable(reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[str]:
    """Return the reasons why a program with the schema ``reader`` may misread data that was written with ``writer``."""
    if reader.package != writer.package:
        return [f"the package {writer.package!r} has become {reader.package!r}"]
    new, old = dict(_messages(reader)), dict(_messages(writer))
    found = [f"the message {name} was removed" for name in old if name not in new]
    for name in old:
        if name in new:
            found += _message(name, new, old)
    return found


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """Yield all message types with their full names, except the compiler's entry types of maps."""
    pending = [(f".{file.package}" if file.package else "", message) for message in file.message_type]
    while pending:
        scope, message = pending.pop(0)
        name = f"{scope}.{message.name}"
        if not message.options.map_entry:
            yield name, message
            pending += [(name, nested) for nested in message.nested_type]


def _message(name: str, new: dict[str, DescriptorProto], old: dict[str, DescriptorProto]) -> Iterator[str]:
    reader, writer = new[name], old[name]
    mine = {field.number: field for field in reader.field}
    theirs = {field.number: field for field in writer.field}
    for number, field in theirs.items():
        where = f"field {number} ({field.name}) of {name}"
        if number in mine:
            yield from _field(where, mine[number], reader, field, writer)
        elif field.label == _REQUIRED:
            yield f"{where} was required, and was removed"
        elif (oneof := _oneof(field, writer)) is not None and oneof in _oneofs(reader):
            yield f"{where} was removed from the oneof {oneof}"
    for number, field in mine.items():
        if number not in theirs and field.label == _REQUIRED:
            yield f"field {number} ({field.name}) of {name} is new and required"
    yield from _moved(name, mine, reader, theirs, writer)


def _moved(
    name: str,
    mine: dict[int, FieldDescriptorProto],
    reader: DescriptorProto,
    theirs: dict[int, FieldDescriptorProto],
    writer: DescriptorProto,
) -> Iterator[str]:
    """Yield a reason for each new oneof into which several fields were moved, and for each existing oneof into which a field was
    moved: a reader keeps only the last field of a oneof, and loses the others."""
    for oneof in sorted(_oneofs(reader)):
        members = [number for number, field in mine.items() if _oneof(field, reader) == oneof and number in theirs]
        moved = [number for number in members if _oneof(theirs[number], writer) != oneof]
        if len(moved) > 1 or (moved and oneof in _oneofs(writer)):
            yield f"the fields {', '.join(map(str, moved))} of {name} were moved into the oneof {oneof}"


def _oneofs(message: DescriptorProto) -> set[str]:
    return {oneof for field in message.field if (oneof := _oneof(field, message)) is not None}


def _oneof(field: FieldDescriptorProto, message: DescriptorProto) -> str | None:
    """Return the name of a field's oneof. Ignores the oneofs that the compiler adds for optional fields of proto3."""
    has_oneof = field.HasField("oneof_index") and not field.proto3_optional
    return message.oneof_decl[field.oneof_index].name if has_oneof else None


def _field(
    where: str, new: FieldDescriptorProto, reader: DescriptorProto, old: FieldDescriptorProto, writer: DescriptorProto
) -> Iterator[str]:
    mine, theirs = _kind(new, reader), _kind(old, writer)
    if not _is_same_encoding(mine, theirs, new, old):
        yield f"{where}: the type {theirs} has become {mine}"
    elif new.label == _REQUIRED and old.label != _REQUIRED:
        yield f"{where} is now required"
    elif (new.label == _REPEATED) != (old.label == _REPEATED) and _is_packed(new):
        yield f"{where}: numbers that are repeated are encoded differently"
    elif old.label == _REQUIRED and new.label != _REQUIRED:
        yield f"{where} is no longer required"


def _kind(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_MESSAGE:
        simple = field.type_name.rpartition(".")[2]
        for nested in message.nested_type:
            if nested.options.map_entry and nested.name == simple:
                key, value = nested.field
                return f"map<{type_of(key)}, {type_of(value)}>"
    return type_of(field)


def _is_same_encoding(mine: str, theirs: str, new: FieldDescriptorProto, old: FieldDescriptorProto) -> bool:
    if mine == theirs:
        return True
    names = {_group_name(mine, new), _group_name(theirs, old)}
    return any(names <= group for group in _GROUPS)


def _group_name(kind: str, field: FieldDescriptorProto) -> str:
    return "enum" if field.type == FieldDescriptorProto.TYPE_ENUM else kind


def _is_packed(field: FieldDescriptorProto) -> bool:
    return field.type == FieldDescriptorProto.TYPE_ENUM or TYPES.get(field.type, "string") not in ("string", "bytes")
