"""Maps a schema's field to its Python annotation and default."""

from __future__ import annotations

from ottla.protocol.codegen.schema import Field

_PYTHON = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Buffer",
}


def annotation(item: Field) -> str:
    name = _PYTHON.get(item.type, item.type if item.is_struct else "int")
    if item.array:
        name = f"list[{name}]"
    return f"{name} | None" if item.nullable or optional_struct(item) else name


def optional_struct(item: Field) -> bool:
    return item.is_struct and not item.array and item.tag is not None


def default_text(item: Field) -> str:
    if item.default == "null" or optional_struct(item):
        return "None"
    if item.array:
        return "[]"
    if item.is_struct:
        return "None" if item.nullable else f"msgspec.field(default_factory={item.type})"
    if item.default is not None:
        if item.type == "string":
            return repr(item.default)
        return item.default.capitalize() if item.type == "bool" else item.default
    return {
        "bool": "False",
        "float64": "0.0",
        "uuid": "NO_UUID",
        "string": '""',
        "bytes": 'b""',
        "records": "None" if item.nullable else 'b""',
    }.get(item.type, "0")
