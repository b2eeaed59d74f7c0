"""Converts Protobuf messages of a schema registry to records of a Spark schema of plain columns. Needs the package protobuf.

A column gets the field of its name. A message, a list or a map becomes JSON text in a STRING column. A field that has presence and
is not set is null; other fields that are not set have their default value, as everywhere in Protobuf.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from ottla.client.schema_registry.protobuf_messages import ProtobufMessages

_INTEGERS: Final = {"INT": 1 << 31, "LONG": 1 << 63, "BIGINT": 1 << 63}
"""The types of whole numbers, with the first number that is too large for them."""
_FRACTIONS: Final = ("FLOAT", "DOUBLE")


def decoder(messages: ProtobufMessages, schema: str) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that decodes the bytes after a value's header. It raises an exception for bytes that are no message of the
    schema, and ValueError for a field that does not fit its column."""
    columns = [(name, kind.upper()) for name, kind in (part.split() for part in schema.split(","))]

    def decode(payload: bytes) -> dict[str, Any]:
        message = messages.message(payload)
        fields = message.DESCRIPTOR.fields_by_name
        # Several columns may need the whole message as JSON-like values.
        plain = functools.cache(lambda: messages.plain(message))
        return {name: _value(plain, message, fields.get(name), kind) for name, kind in columns}

    return decode


def _value(plain: Callable[[], dict[str, Any]], message: Any, field: Any, kind: str) -> Any:
    if field is None or (field.has_presence and not message.HasField(field.name)):
        return None
    value = getattr(message, field.name)
    if not isinstance(value, bool | int | float | str | bytes):
        return _text(plain(), field, kind)
    if field.enum_type is not None and kind == "STRING":
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    if isinstance(value, bool):
        is_fitting = kind == "BOOLEAN"
    elif isinstance(value, int):
        is_fitting = kind in _FRACTIONS or (kind in _INTEGERS and -_INTEGERS[kind] <= value < _INTEGERS[kind])
    elif isinstance(value, float):
        is_fitting = kind == "DOUBLE" or (kind == "FLOAT" and field.type == FieldDescriptor.TYPE_FLOAT)
    else:
        is_fitting = kind == ("STRING" if isinstance(value, str) else "BINARY")
    if not is_fitting:
        raise ValueError(f"field {field.name} is not of type {kind}")
    return float(value) if kind in _FRACTIONS else value


def _text(plain: dict[str, Any], field: Any, kind: str) -> str:
    """Return a message, a list or a map as JSON text, or as text if JSON has a text for it, as for a Timestamp."""
    if kind != "STRING":
        raise ValueError(f"field {field.name} is not of type {kind}")
    if field.name not in plain:
        # JSON-like values omit empty lists and maps.
        return "{}" if field.message_type is not None and field.message_type.GetOptions().map_entry else "[]"
    value = plain[field.name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
