"""Random messages built from the schemas, valid for one version. Fields that the version lacks keep their defaults."""

from __future__ import annotations

import random
from importlib import import_module
from types import ModuleType
from typing import Any

from ottla.protocol.codegen.schema import Field, Schema, Section


def module_of(schema: Schema) -> ModuleType:
    return import_module(f"ottla.protocol.messages.{schema.module}")


class MessageMaker:
    """Makes random requests or responses of one version, with values that ottla, kio and kafka-python all accept."""

    def __init__(self, module: ModuleType, section: Section, version: int, seed: int) -> None:
        self._module = module
        self._section = section
        self._version = version
        self._random = random.Random(seed)

    def make(self) -> Any:
        return self._struct(self._section.name, self._section.fields)

    def _struct(self, name: str, fields: list[Field]) -> Any:
        values = {f.name: self._value(f) for f in fields if f.low <= self._version <= f.high}
        # If request and response have different structs of the same name, the response's class has the prefix "Response".
        renamed = f"Response{name}" if self._section.name.endswith("Response") else name
        shape = getattr(self._module, renamed, None) or getattr(self._module, name)
        return shape(**values)

    def _value(self, field: Field) -> Any:
        nullable = field.nullable and (field.type != "string" or field.low <= self._version)
        if nullable and self._nullable_here(field) and self._random.random() < 0.3:
            return None
        if field.array:
            return [self._single(field) for _ in range(self._random.randrange(3))]
        return self._single(field)

    def _nullable_here(self, field: Field) -> bool:
        """Whether the field may be None. Fields that became nullable only in a later version never are."""
        return field.name not in {"topics", "name", "protocol_name"}

    def _single(self, field: Field) -> Any:
        rng = self._random
        kind = field.type
        if field.is_struct:
            fields = field.children or self._section.structs[kind]
            return self._struct(kind, fields)
        if kind == "string":
            return rng.choice(["", "a", "topic-é", "x" * 130])
        if kind in ("bytes", "records"):
            return rng.randbytes(rng.choice([0, 1, 127, 128, 300]))
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "uuid":
            return rng.randbytes(16)
        if kind == "float64":
            return float(rng.randrange(100))
        if field.name.endswith("error_code"):
            return rng.choice([0, 3, 47, 51])
        return rng.randrange(100)
