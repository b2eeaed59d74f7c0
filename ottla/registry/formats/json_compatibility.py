"""The rules by which one JSON Schema accepts all values of another, as in Confluent's registry.

Each rule compares a restriction in the writer's schema and in the reader's schema. If the restriction is new or narrower in the
reader's schema, the reader is incompatible. Two rules follow Confluent: an object that allows further properties ("open") may
already have values of any type under a new property's name, and a required property with a default counts as optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.registry.formats.json_nodes import (
    ALL,
    ANY,
    ANY_OF,
    ARRAY,
    COMBINED,
    CONDITION,
    ENUM,
    MAX_DEPTH,
    NEVER,
    NOT,
    NUMBER,
    OBJECT,
    ONE_OF,
    STRING,
    SchemaNode,
    TooComplex,
    additional_of,
    items_of,
    matched,
)

_UPPER: Final = {
    STRING: ("maxLength",),
    NUMBER: ("maximum", "exclusiveMaximum"),
    OBJECT: ("maxProperties",),
    ARRAY: ("maxItems",),
}
_LOWER: Final = {
    STRING: ("minLength",),
    NUMBER: ("minimum", "exclusiveMinimum"),
    OBJECT: ("minProperties",),
    ARRAY: ("minItems",),
}
"""Keywords of lower limits by type, which must not be higher in the reader's schema."""
MAX_COMPARISONS: Final = 10_000
"""Maximum number of compared pairs of nodes: two unions with N and M members have N * M pairs."""
MAX_EQUALITIES: Final = 100_000
"""Maximum number of checks for equality: each schema in an anyOf, allOf or oneOf is checked against all others."""


class _Comparison:
    def __init__(self) -> None:
        self._active: set[tuple[int, int, str, str]] = set()
        """The pairs that are being compared, so that the comparison of recursive schemas ends."""
        self._left = MAX_COMPARISONS
        self._equalities_left = MAX_EQUALITIES
        self._depth = 0

    def reasons(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        self._left -= 1
        if self._left < 0 or self._depth >= MAX_DEPTH:
            raise TooComplex(f"at most {MAX_COMPARISONS:,} pairs of subschemas can be compared, nested at most {MAX_DEPTH} deep")
        key = (reader.identity, writer.identity, reader.kind, writer.kind)
        if reader.identity and writer.identity:
            if key in self._active:
                return []
            self._active.add(key)
        self._depth += 1
        try:
            return self._compared(reader, writer, path)
        finally:
            self._depth -= 1
            self._active.discard(key)

    def accepts(self, reader: SchemaNode, writer: SchemaNode, path: str) -> bool:
        return not self.reasons(reader, writer, path)

    def _compared(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        if reader.kind == ANY or writer.kind == NEVER:
            return []
        if reader.kind in COMBINED and writer.kind in COMBINED:
            return self._combinations(reader, writer, path)
        if reader.kind in COMBINED:
            # anyOf, oneOf, and allOf with one branch, accept the writer's values if one branch accepts all of them.
            if (len(reader.parts) == 1 or reader.kind != ALL) and any(self.accepts(part, writer, path) for part in reader.parts):
                return []
        elif writer.kind in COMBINED and len(writer.parts) == 1:
            return self.reasons(reader, writer.parts[0], path)
        if reader.kind != writer.kind:
            return [f"{path}: the type {writer.kind} has become {reader.kind}"]
        rule = _RULES.get(reader.kind)
        return [] if rule is None else rule(self, reader, writer, path)

    def _combinations(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        """Compare anyOf, allOf or oneOf: each branch of the shorter list needs its own compatible branch in the longer list."""
        if not _may_follow(reader, writer):
            return [f"{path}: {writer.kind} has become {reader.kind}"]
        readers, writers = self._distinct(reader.parts), self._distinct(writer.parts)
        if reader.kind == ALL and len(readers) > len(writers):
            return [f"{path}: {reader.kind} has {len(readers) - len(writers)} new restrictions"]
        if reader.kind != ALL and len(readers) < len(writers):
            return [f"{path}: {reader.kind} has lost {len(writers) - len(readers)} alternatives"]
        partners = [
            [i for i, candidate in enumerate(readers) if self.accepts(candidate, part, f"{path}/{writer.kind}/{n}")]
            for n, part in enumerate(writers)
        ]
        if _matching(partners) < min(len(readers), len(writers)):
            return [f"{path}: an alternative or restriction of {reader.kind} does not accept all of its earlier values"]
        return []

    def _distinct(self, parts: Sequence[SchemaNode]) -> list[SchemaNode]:
        kept: list[SchemaNode] = []
        for part in parts:
            self._equalities_left -= len(kept)
            if self._equalities_left < 0:
                raise TooComplex(f"at most {MAX_EQUALITIES:,} pairs of alternatives are allowed")
            if not any((part.kind, part.schema, part.values, part.parts) == (o.kind, o.schema, o.values, o.parts) for o in kept):
                kept.append(part)
        return kept

    def enum(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        lost = sorted(set(writer.values) - set(reader.values))
        return [f"{path}/enum: the values {', '.join(lost)[:200]} are no longer allowed"] if lost else []

    def negation(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        """Compare with reader and writer exchanged, because the writer must exclude whatever the reader excludes."""
        return self.reasons(writer.parts[0], reader.parts[0], f"{path}/not")

    def limits(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        found = []
        for words, is_narrower in ((_UPPER, lambda new, old: new < old), (_LOWER, lambda new, old: new > old)):
            for word in words.get(reader.kind, ()):
                new, old = reader.schema.get(word), writer.schema.get(word)
                if new is not None and new is not False and (old is None or old is False or _exceeds(is_narrower, new, old)):
                    found.append(f"{path}/{word}: {'new' if old is None else f'{old} has become'} {new}")
        return found

    def string(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        new, old = reader.schema.get("pattern"), writer.schema.get("pattern")
        return [f"{path}/pattern: new or changed"] * (new is not None and new != old) + self.limits(reader, writer, path)

    def number(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        found = self.limits(reader, writer, path)
        new, old = reader.schema.get("multipleOf"), writer.schema.get("multipleOf")
        if new is not None and (old is None or old % new):
            found.append(f"{path}/multipleOf: {old} has become {new}")
        if reader.is_integer and not writer.is_integer:
            found.append(f"{path}: number has become integer")
        return found

    def array(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        found = self.limits(reader, writer, path)
        if reader.schema.get("uniqueItems") and not writer.schema.get("uniqueItems"):
            found.append(f"{path}/uniqueItems: new")
        (new, new_rest), (old, old_rest) = items_of(reader), items_of(writer)
        for i in range(max(len(new), len(old))):
            where = f"{path}/items/{i}"
            mine = reader.child(new[i] if i < len(new) else new_rest)
            theirs = writer.child(old[i] if i < len(old) else old_rest)
            found += self.reasons(mine, theirs, where)
        return found + self.reasons(reader.child(new_rest), writer.child(old_rest), f"{path}/items")

    def object(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        found = self.limits(reader, writer, path)
        new, old = reader.schema.get("properties") or {}, writer.schema.get("properties") or {}
        required = set(reader.schema.get("required") or ())
        for name in sorted({*new, *old}):
            where = f"{path}/properties/{name}"
            if name in new and name in old:
                found += self.reasons(reader.child(new[name]), writer.child(old[name]), where)
            elif name in old:
                found += self._removed(reader, writer.child(old[name]), name, where)
            else:
                found += self._added(reader.child(new[name]), writer, name, where)
            is_new = name not in old and _is_open(writer)
            was_required = name in (writer.schema.get("required") or ())
            has_default = isinstance(new.get(name), dict) and "default" in new[name]
            if name in new and name in required and not (was_required or has_default or is_new):
                found.append(f"{where}: the property is now required, and has no default")
        found += self._patterns(reader, writer, path)
        found += self._dependencies(reader, writer, path)
        mine = additional_of(reader, "additionalProperties", "unevaluatedProperties")
        theirs = additional_of(writer, "additionalProperties", "unevaluatedProperties")
        if mine is False and theirs is not False:
            found.append(f"{path}/additionalProperties: no longer allowed")
        elif mine is not False and theirs is not False:
            found += self.reasons(reader.child(mine), writer.child(theirs), f"{path}/additionalProperties")
        return found

    def _removed(self, reader: SchemaNode, old: SchemaNode, name: str, path: str) -> list[str]:
        if _is_open(reader):
            return []
        covering = matched(reader, name)
        if covering is not None:
            return self.reasons(covering, old, path)
        return [] if old.kind == NEVER else [f"{path}: the property was removed, and additional properties are not allowed"]

    def _added(self, new: SchemaNode, writer: SchemaNode, name: str, path: str) -> list[str]:
        if _is_open(writer):
            return [] if new.kind == ANY else [f"{path}: the property was added, and earlier values may have it with another type"]
        covering = matched(writer, name)
        return [] if covering is None else self.reasons(new, covering, path)

    def _patterns(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        """Compare ``patternProperties``. A pattern of only one schema is compared with the other's additional properties."""
        found = []
        new, old = (one.schema.get("patternProperties") or {} for one in (reader, writer))
        for pattern in sorted({*new, *old}):
            where = f"{path}/patternProperties/{pattern}"
            mine = new.get(pattern, additional_of(reader, "additionalProperties", "unevaluatedProperties"))
            theirs = old.get(pattern, additional_of(writer, "additionalProperties", "unevaluatedProperties"))
            found += self.reasons(reader.child(mine), writer.child(theirs), where)
        return found

    def _dependencies(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        found = []
        new, old = _dependencies_of(reader), _dependencies_of(writer)
        for name, needed in new.items():
            before = old.get(name)
            where = f"{path}/dependencies/{name}"
            if isinstance(needed, list):
                if not isinstance(before, list) or not set(needed) <= set(before):
                    found.append(f"{where}: new or extended")
            elif before is None or isinstance(before, list):
                found.append(f"{where}: new")
            else:
                found += self.reasons(reader.child(needed), writer.child(before), where)
        return found

    def condition(self, reader: SchemaNode, writer: SchemaNode, path: str) -> list[str]:
        """Compare conditions: ``if`` must accept the same values, and ``then`` and ``else`` at least the same values."""
        (new_if, *new), (old_if, *old) = reader.parts, writer.parts
        if not (self.accepts(new_if, old_if, path) and self.accepts(old_if, new_if, path)):
            return [f"{path}/if: changed"]
        branches = zip(("then", "else"), new, old, strict=True)
        return [reason for name, mine, theirs in branches for reason in self.reasons(mine, theirs, f"{path}/{name}")]


_RULES: Final[dict[str, Callable[[_Comparison, SchemaNode, SchemaNode, str], list[str]]]] = {
    ENUM: _Comparison.enum,
    NOT: _Comparison.negation,
    STRING: _Comparison.string,
    NUMBER: _Comparison.number,
    ARRAY: _Comparison.array,
    OBJECT: _Comparison.object,
    CONDITION: _Comparison.condition,
}


def unreadable(reader: SchemaNode, writer: SchemaNode) -> list[str]:
    """Return the reasons why values that are valid for ``writer`` may be invalid for ``reader``. Raises `TooComplex`."""
    for one in (reader, writer):
        if one.budget is not None:
            one.budget.renew()
    return _Comparison().reasons(reader, writer, "#")


def _may_follow(reader: SchemaNode, writer: SchemaNode) -> bool:
    """Whether the reader's keyword may replace the writer's: anyOf accepts more than oneOf and allOf, and with one branch all are
    equivalent."""
    if reader.kind in (writer.kind, ANY_OF):
        return True
    return len(writer.parts) == 1 and (reader.kind == ONE_OF or len(reader.parts) == 1)


def _matching(partners: Sequence[Sequence[int]]) -> int:
    """Return the size of a maximum matching (Kuhn's algorithm). ``partners`` has the possible partners of each branch."""
    taken: dict[int, int] = {}

    def is_placed(part: int, tried: set[int]) -> bool:
        for partner in partners[part]:
            if partner not in tried:
                tried.add(partner)
                if partner not in taken or is_placed(taken[partner], tried):
                    taken[partner] = part
                    return True
        return False

    return sum(is_placed(part, set()) for part in range(len(partners)))


def _exceeds(is_narrower: Callable[[Any, Any], bool], new: Any, old: Any) -> bool:
    """Whether the new limit is narrower. Exclusive limits of Draft 4 are booleans and are ignored."""
    return not isinstance(new, bool) and not isinstance(old, bool) and is_narrower(new, old)


def _is_open(found: SchemaNode) -> bool:
    """Whether an object may have further properties with any values."""
    additional = additional_of(found, "additionalProperties", "unevaluatedProperties")
    return additional is True and not found.schema.get("patternProperties")


def _dependencies_of(found: SchemaNode) -> dict[str, Any]:
    return {
        **(found.schema.get("dependencies") or {}),
        **(found.schema.get("dependentRequired") or {}),
        **(found.schema.get("dependentSchemas") or {}),
    }
