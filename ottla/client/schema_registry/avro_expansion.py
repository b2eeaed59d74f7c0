"""Refuses Avro schemas that decode few bytes to very many objects. Nulls, and records of nulls, need no bytes, so 20 bytes can
encode an array of 2^60 nulls. Without this check a client that may register schemas could exhaust the memory of programs that
decode values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_OBJECTS_PER_BYTE: Final = 4
MAX_OBJECTS: Final = 10_000
"""Maximum number of Python objects in a decoded value, without the contents of arrays, maps and unions."""
_BYTES: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""The smallest encoding of each primitive type, in bytes."""


def check_expansion(schema: Any, named: Mapping[str, Any]) -> None:
    """Raise ValueError if values of a parsed schema may have too many objects. ``named`` contains the schema's named types by full
    name."""
    walk = _Walk(named)
    objects, _ = walk.measured(schema)
    if objects > MAX_OBJECTS:
        raise ValueError(f"a value has too many objects: {objects:,} or more; the limit is {MAX_OBJECTS:,}")
    seen: set[tuple[str | int, int]] = set()
    while walk.parts:
        part, head_bytes = walk.parts.pop()
        key = (part if isinstance(part, str) else id(part), head_bytes)
        if key in seen:
            continue
        seen.add(key)
        objects, size_bytes = walk.measured(part)
        if objects > MAX_OBJECTS_PER_BYTE * (head_bytes + size_bytes):
            raise ValueError(
                f"a part of a value has too many objects: {objects:,} in {head_bytes + size_bytes} bytes; the limit is"
                f" {MAX_OBJECTS_PER_BYTE} per byte"
            )


class _Walk:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._known: dict[str, tuple[int, int] | None] = {}
        """The result of `measured` for each record type; None while a record type is being measured."""
        self.parts: list[tuple[Any, int]] = []
        """Types inside arrays, maps and unions, each with the minimum number of bytes that precede each value."""

    def measured(self, schema: Any) -> tuple[int, int]:
        """Return the number of objects and the smallest number of bytes of a type's values, without the contents of arrays, maps
        and unions."""
        if isinstance(schema, list):
            self.parts += [(branch, 1) for branch in schema]
            return 1, 1
        if isinstance(schema, str):
            return (1, _BYTES[schema]) if schema in _BYTES else self.measured(self._named[schema])
        match schema["type"]:
            case "record" | "error":
                return self._record(schema)
            case "array":
                self.parts.append((schema["items"], 0))
                return 1, 1
            case "map":
                self.parts.append((schema["values"], 1))
                return 1, 1
            case "enum":
                return 1, 1
            case "fixed":
                return 1, schema["size"]
            case other:
                return self.measured(other)

    def _record(self, record: Any) -> tuple[int, int]:
        name = record["name"]
        if name not in self._known:
            self._known[name] = None
            fields = [self.measured(field["type"]) for field in record["fields"]]
            self._known[name] = 1 + sum(objects for objects, _ in fields), sum(size for _, size in fields)
        found = self._known[name]
        if found is None:
            raise ValueError(f"record {name} contains itself")
        return found
