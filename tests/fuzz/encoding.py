"""Encodes requests straight from the schemas, so that any length, tag or number may be wrong.

The generated codecs can only encode valid requests. Here each place where an encoding can be wrong is a numbered site. A first pass
counts the sites, and a second pass corrupts the chosen sites.
"""

from __future__ import annotations

import random
from functools import cache
from struct import calcsize, pack
from typing import Any

from ottla.broker.handlers.registry import SERVED
from ottla.protocol.codegen.__main__ import schemas
from ottla.protocol.codegen.schema import FIXED, Field, Schema, Section
from ottla.protocol.primitives import uvarint

Tree = dict[str, Any]
"""Values of a struct's fields, by name."""

LIES_INT = (-1, -2, 0, 1, 127, 128, 255, 32_767, 65_536, 1_000_001, 2**31 - 1, -(2**31))
NO_UTF8 = (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"a\0b", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80")
NO_VARINT = (b"\xff" * 5, b"\xff" * 9, b"\x80\0", b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x0f", b"\x80")
UNKNOWN_TAG = 99


@cache
def _by_key() -> dict[int, Schema]:
    return {schema.key: schema for schema in schemas() if schema.is_api}


@cache
def requests() -> dict[int, Section]:
    """Return the request schema of every API that the broker supports, by API key."""
    return {key: _by_key()[key].sections[0] for key in sorted(SERVED)}


def children(section: Section, field: Field) -> list[Field]:
    """Return the fields of a struct, whose type is declared in place or by name."""
    return field.children or section.structs[field.type]


class Bends:
    """Counts the sites of one encoding, and corrupts the sites whose numbers are in ``chosen``."""

    def __init__(self, rng: random.Random, chosen: frozenset[int] = frozenset()) -> None:
        self._rng = rng
        self._chosen = chosen
        self.count = 0

    def is_corrupted(self) -> bool:
        """Count one site. Returns whether the site is to be corrupted."""
        self.count += 1
        return self.count - 1 in self._chosen

    def size(self, right: int, *, flexible: bool, width: str) -> bytes:
        """Encode a length as a compact length, or as an integer of ``width``. ``right`` is the correct length; -1 means null."""
        written = right
        if self.is_corrupted():
            if flexible and self._rng.random() < 0.3:
                return self._rng.choice(NO_VARINT)
            written = self._rng.choice((*LIES_INT, right - 1, right + 1, right * 2 + 1))
        if flexible:
            return uvarint((written + 1) & 0xFFFFFFFF)
        limit = 1 << (8 * calcsize(width) - 1)
        return pack(f">{width}", (written + limit) % (2 * limit) - limit)

    def number(self, code: str, value: Any) -> bytes:
        raw = pack(f">{code}", value)
        if not self.is_corrupted():
            return raw
        size = len(raw)
        edges = (b"\xff" * size, b"\x80" + bytes(size - 1), b"\x7f" + b"\xff" * (size - 1), bytes(size), self._rng.randbytes(size))
        return self._rng.choice(edges)

    def text(self, raw: bytes) -> bytes:
        return self._rng.choice(NO_UTF8) if self.is_corrupted() else raw

    def tags(self, tags: list[tuple[int, bytes]]) -> bytes:
        """Encode a section of tagged fields."""
        if not self.is_corrupted():
            return _tags(tags)
        bend = self._rng.randrange(6)
        unknown = [
            (UNKNOWN_TAG + at, self._rng.randbytes(self._rng.randrange(5))) for at in range(self._rng.choice((1, 2, 128, 129)))
        ]
        if bend == 0:
            return _tags([*tags, *unknown])
        if bend == 1:
            return _tags(tags + tags + unknown[:1] + unknown[:1])
        if bend == 2:
            return uvarint(self._rng.choice((1, 127, 129, 2**31 - 1, 2**32 - 1))) + _tags(tags)[1:]
        if bend == 3:
            return _tags([(tag, raw + b"\0") for tag, raw in tags] or [(0, b"")])
        if bend == 4:
            return _tags([(tag, raw[:-1]) for tag, raw in tags] or [(1, b"\0")])
        return self._rng.choice(NO_VARINT)


def _tags(tags: list[tuple[int, bytes]]) -> bytes:
    return uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(raw)) + raw for tag, raw in tags)


class Encoder:
    """Encodes the values of one section of a schema at one version."""

    def __init__(self, section: Section, version: int, bends: Bends) -> None:
        self._section = section
        self._version = version
        self._bends = bends
        self._flexible = version >= section.flexible

    def encode(self, tree: Tree) -> bytes:
        out: list[bytes] = []
        self._struct(self._section.fields, tree, out)
        return b"".join(out)

    def _struct(self, fields: list[Field], tree: Tree, out: list[bytes]) -> None:
        tagged: list[tuple[int, bytes]] = []
        for field in fields:
            if not field.low <= self._version <= field.high:
                continue
            if field.tag is None:
                self._value(field, tree[field.name], out)
            elif self._flexible and field.name in tree:
                inside: list[bytes] = []
                self._value(field, tree[field.name], inside)
                tagged.append((field.tag, b"".join(inside)))
        if self._flexible:
            out.append(self._bends.tags(tagged))

    def _value(self, field: Field, value: Any, out: list[bytes]) -> None:
        if field.array:
            out.append(self._bends.size(-1 if value is None else len(value), flexible=self._flexible, width="i"))
            for item in value or ():
                self._single(field, item, out)
        else:
            self._single(field, value, out)

    def _single(self, field: Field, value: Any, out: list[bytes]) -> None:
        kind, bends = field.type, self._bends
        if field.is_struct:
            if field.nullable and not field.array:
                out.append(bends.number("b", -1 if value is None else 1))
            if value is not None:
                self._struct(children(self._section, field), value, out)
        elif kind in FIXED:
            out.append(bends.number(FIXED[kind], value))
        else:
            raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            if raw is not None and kind == "string":
                raw = bends.text(raw)
            out.append(bends.size(-1 if raw is None else len(raw), flexible=self._flexible, width="h" if kind == "string" else "i"))
            out.append(raw or b"")


def body(key: int, version: int, tree: Tree, rng: random.Random, corruptions: int = 0) -> bytes:
    """Encode the body of a request, with ``corruptions`` randomly chosen fields encoded wrongly."""
    section = requests()[key]
    chosen: frozenset[int] = frozenset()
    if corruptions:
        counting = Bends(rng)
        Encoder(section, version, counting).encode(tree)
        chosen = frozenset(rng.sample(range(counting.count), min(corruptions, counting.count)))
    return Encoder(section, version, Bends(rng, chosen)).encode(tree)


def header(key: int, version: int, correlation_id: int, client_id: bytes | None, tags: bytes = b"\0") -> bytes:
    """Encode a request header. ``tags`` is written only in versions whose header has tagged fields."""
    section = requests().get(key)
    flexible = section is not None and version >= section.flexible
    said = b"\xff\xff" if client_id is None else pack(">h", len(client_id)) + client_id
    return pack(">hhi", key, version, correlation_id) + said + (tags if flexible else b"")


def framed(raw: bytes) -> bytes:
    """Return a frame: the size of the request, followed by the request."""
    return pack(">i", len(raw)) + raw
