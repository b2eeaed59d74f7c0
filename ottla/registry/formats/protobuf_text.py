"""Converts file descriptors to Protobuf text, because some clients register a file descriptor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto

TYPES: Final = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in FieldDescriptorProto.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_LAST_FIELD_NUMBER: Final = (1 << 29) - 1
_LAST_ENUM_NUMBER: Final = (1 << 31) - 1
_INDENT: Final = "  "


def printed(file: FileDescriptorProto) -> str:
    """Return the text of a file descriptor, in a fixed order, without comments."""
    is_proto3 = file.syntax == "proto3"
    lines = [f'edition = "{_edition(file)}";' if file.syntax == "editions" else f'syntax = "{file.syntax or "proto2"}";']
    if file.package:
        lines.append(f"package {file.package};")
    lines.append("")
    for i, path in enumerate(file.dependency):
        kind = "public " if i in file.public_dependency else "weak " if i in file.weak_dependency else ""
        lines.append(f'import {kind}"{path}";')
    lines += [f"option {name} = {value};" for name, value in _options(file.options)]
    for message in file.message_type:
        lines += ["", *_message(message, f".{file.package}" if file.package else "", is_proto3)]
    for enum in file.enum_type:
        lines += ["", *_enum(enum)]
    for scope, fields in _extensions(file.extension):
        lines += ["", f"extend {scope} {{", *_indented(_fields(fields, {}, is_proto3)), "}"]
    for service in file.service:
        lines += ["", f"service {service.name} {{"]
        lines += _indented(f"option {name} = {value};" for name, value in _options(service.options))
        for method in service.method:
            sent = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            lines.append(f"{_INDENT}rpc {method.name} ({sent}) returns ({answered});")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _edition(file: FileDescriptorProto) -> str:
    from google.protobuf.descriptor_pb2 import Edition

    return str(Edition.Name(file.edition)).removeprefix("EDITION_")


def _message(message: DescriptorProto, scope: str, is_proto3: bool) -> Iterator[str]:
    full = f"{scope}.{message.name}"
    maps = {f"{full}.{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
    yield f"message {message.name} {{"
    yield from _indented(f"option {name} = {value};" for name, value in _options(message.options))
    if message.reserved_range:
        ranges = (_range(one.start, one.end - 1, _LAST_FIELD_NUMBER) for one in message.reserved_range)
        yield f"{_INDENT}reserved {', '.join(ranges)};"
    if message.reserved_name:
        yield f"{_INDENT}reserved {', '.join(_quoted(name) for name in message.reserved_name)};"
    yield from _indented(_fields((f for f in message.field if not _in_oneof(f)), maps, is_proto3))
    for index, oneof in enumerate(message.oneof_decl):
        members = [f for f in message.field if _in_oneof(f) and f.oneof_index == index]
        if members:
            yield f"{_INDENT}oneof {oneof.name} {{"
            yield from _indented(_indented(_fields(members, maps, is_proto3=True)))
            yield f"{_INDENT}}}"
    for one in message.extension_range:
        yield f"{_INDENT}extensions {_range(one.start, one.end - 1, _LAST_FIELD_NUMBER)};"
    for extended, fields in _extensions(message.extension):
        yield from _indented([f"extend {extended} {{", *_indented(_fields(fields, {}, is_proto3)), "}"])
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _indented(_message(nested, full, is_proto3))
    for enum in message.enum_type:
        yield from _indented(_enum(enum))
    yield "}"


def _fields(fields: Iterable[FieldDescriptorProto], maps: dict[str, DescriptorProto], is_proto3: bool) -> Iterator[str]:
    for field in fields:
        options = _options(field.options)
        if field.HasField("default_value"):
            is_text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
            options.append(("default", _quoted(field.default_value) if is_text else field.default_value))
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options.append(("json_name", _quoted(field.json_name)))
        shown = f" [{', '.join(f'{name} = {value}' for name, value in options)}]" if options else ""
        entry = maps.get(field.type_name)
        if entry is not None:
            key, value = entry.field
            yield f"map<{type_of(key)}, {type_of(value)}> {field.name} = {field.number}{shown};"
        else:
            yield f"{_label(field, is_proto3)}{type_of(field)} {field.name} = {field.number}{shown};"


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(f"option {name} = {value};" for name, value in _options(enum.options))
    if enum.reserved_range:
        yield f"{_INDENT}reserved {', '.join(_range(one.start, one.end, _LAST_ENUM_NUMBER) for one in enum.reserved_range)};"
    if enum.reserved_name:
        yield f"{_INDENT}reserved {', '.join(_quoted(name) for name in enum.reserved_name)};"
    for value in enum.value:
        options = _options(value.options)
        shown = f" [{', '.join(f'{name} = {of}' for name, of in options)}]" if options else ""
        yield f"{_INDENT}{value.name} = {value.number}{shown};"
    yield "}"


def _extensions(fields: Iterable[FieldDescriptorProto]) -> list[tuple[str, list[FieldDescriptorProto]]]:
    grouped: dict[str, list[FieldDescriptorProto]] = {}
    for field in fields:
        grouped.setdefault(field.extendee, []).append(field)
    return list(grouped.items())


def type_of(field: FieldDescriptorProto) -> str:
    """Return the name of a field's type: a scalar type, or the full name of a message or enum with a leading dot."""
    return TYPES.get(field.type) or str(field.type_name)


def _label(field: FieldDescriptorProto, is_proto3: bool) -> str:
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return "repeated "
    if _in_oneof(field):
        return ""
    if field.label == FieldDescriptorProto.LABEL_REQUIRED:
        return "required "
    return "optional " if field.proto3_optional or not is_proto3 else ""


def _in_oneof(field: FieldDescriptorProto) -> bool:
    """Whether a field is in a oneof of the schema's text. Ignores the oneofs that the compiler adds for optional fields of
    proto3."""
    return field.HasField("oneof_index") and not field.proto3_optional


def _options(options: Any) -> list[tuple[str, str]]:
    """Return the options to print: those that the standard file ``descriptor.proto`` defines. Custom options are omitted."""
    found = []
    for field, value in options.ListFields():
        if field.is_extension or field.name in ("map_entry", "features", "uninterpreted_option") or field.message_type is not None:
            continue
        for one in value if isinstance(value, list) or _is_repeated(value) else [value]:
            if field.enum_type is not None:
                text = field.enum_type.values_by_number[one].name
            elif isinstance(one, bool):
                text = str(one).lower()
            else:
                text = _quoted(one) if isinstance(one, str) else str(one)
            found.append((field.name, text))
    return found


def _is_repeated(value: object) -> bool:
    return not isinstance(value, str | bytes | int | float) and hasattr(value, "__iter__")


def _range(start: int, end: int, last: int) -> str:
    return str(start) if start == end else f"{start} to {'max' if end >= last else end}"


def _json_name(name: str) -> str:
    return re.sub("_+(.?)", lambda match: match[1].upper(), name)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"{_INDENT}{line}" for line in lines)
