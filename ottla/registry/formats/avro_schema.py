"""Avro schemas: parsed and compared by Apache Avro's library for Python, whose rules are those of Avro for Java."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.schema import Schema, parse

from ottla.registry.formats.avro_names import AvroError, canonical, dumped, self_contained
from ottla.registry.formats.parsed import MAX_REASONS, invalid
from ottla.registry.schema_text import AVRO, NamedText

MAX_NAMES: Final = 2_000
"""Maximum number of fields and named types of a schema. The library takes quadratic time to compare the fields of a record."""


class AvroSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed Avro schema (implements `Parsed`). The canonical text needs no normalization: only the order of properties, which no
    reader uses, may differ."""

    text: str
    schema: Any
    """The schema as an object of the library, with full names and all referenced types."""

    @property
    def normalized(self) -> str:
        return self.text

    def unreadable(self, writer: AvroSchema) -> list[str]:
        # Check this schema as reader only: callers choose the directions by the compatibility level.
        result = ReaderWriterCompatibilityChecker().get_compatibility(self.schema, writer.schema)
        if result.compatibility is not SchemaCompatibilityType.incompatible:
            return []
        kinds = ", ".join(sorted({kind.name.upper() for kind in result.incompatibilities}))
        places = ", ".join(sorted(result.locations)[:MAX_REASONS])
        return [f"{kinds} at {places}: {message}" for message in sorted(result.messages)[:MAX_REASONS]] or [f"{kinds} at {places}"]

    def serialized(self) -> str | None:
        return None


def parse_avro(text: str, references: Sequence[NamedText]) -> AvroSchema:
    """Parse an Avro schema. Raises `RegistryError`."""
    try:
        whole = dumped(self_contained(text, [reference.text for reference in references]))
        if whole.count('"name":') > MAX_NAMES:
            raise AvroError(f"the schema has more than {MAX_NAMES:,} fields and types, with those of its references")
        parsed: Schema = parse(whole)
        return AvroSchema(text=canonical(text), schema=parsed)
    except (AvroError, AvroException) as error:
        raise invalid(AVRO, error) from None
    except RecursionError:
        raise invalid(AVRO, "the schema's types are nested too deeply") from None
