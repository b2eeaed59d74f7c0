"""Reads the schema notation.

One file is one API (``api NAME KEY``, a ``request`` and a ``response`` section) or one record (``record NAME KEY`` and a ``data``
section). A section line gives its versions and its first flexible version. A field line is ``name type[?[V+]] [versions] [tag=N]
[=default]``, indented by two spaces per level; ``?`` is nullable (``?7+``: since version 7), ``[]`` an array; ``struct NAME``
declares a struct that is used twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FOREVER = 32767

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
SIZED = {"string", "bytes", "records"}


@dataclass(slots=True)
class Field:
    name: str
    type: str
    array: bool
    nullable: bool
    low: int
    high: int
    tag: int | None
    default: str | None
    children: list[Field] = field(default_factory=list)

    @property
    def is_struct(self) -> bool:
        return self.type not in FIXED and self.type not in SIZED


@dataclass(slots=True)
class Section:
    """One message: its class name, valid versions, first flexible version and fields."""

    name: str
    low: int
    high: int
    flexible: int
    unstable: bool
    fields: list[Field]
    structs: dict[str, list[Field]]


@dataclass(slots=True)
class Schema:
    name: str
    key: int
    is_api: bool
    sections: list[Section]

    @property
    def module(self) -> str:
        return snake(self.name)


def snake(name: str) -> str:
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def _range(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), FOREVER
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def _field(words: list[str], inherited: tuple[int, int]) -> Field:
    name, kind, *rest = words
    kind, question, _ = kind.partition("?")
    low, high = inherited
    tag: int | None = None
    default: str | None = None
    for word in rest:
        if word.startswith("tag="):
            tag = int(word[4:])
        elif word.startswith("="):
            default = word[1:]
        else:
            low, high = _range(word)
            low, high = max(low, inherited[0]), min(high, inherited[1])
    array = kind.startswith("[]")
    return Field(name, kind[2:] if array else kind, array, bool(question), low, high, tag, default)


def parse(path: Path) -> Schema:
    lines = path.read_text().splitlines()
    word, name, key = lines[0].split()
    schema = Schema(name, int(key), word == "api", [])
    stack: list[tuple[int, list[Field], tuple[int, int]]] = []
    section: Section | None = None
    for line in lines[1:]:
        words = line.split()
        depth = (len(line) - len(line.lstrip())) // 2
        if depth == 0:
            low, high = _range(words[1])
            flexible = FOREVER if words[3] == "none" else int(words[3][:-1])
            title = name if words[0] == "data" else name + words[0].capitalize()
            section = Section(title, low, high, flexible, "unstable" in words, [], {})
            schema.sections.append(section)
            stack = [(1, section.fields, (low, high))]
            continue
        assert section is not None
        while stack[-1][0] > depth:
            stack.pop()
        if words[0] == "struct":
            stack.append((depth + 1, section.structs.setdefault(words[1], []), (section.low, section.high)))
            continue
        item = _field(words, stack[-1][2])
        stack[-1][1].append(item)
        stack.append((depth + 1, item.children, (item.low, item.high)))
    return schema
