"""The interface of a parsed schema, which all schema types implement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.schema_text import NamedText

MAX_REASONS = 20


class Parsed(Protocol):
    """A valid schema whose references are resolved."""

    @property
    def text(self) -> str:
        """The schema's text to store."""
        ...

    @property
    def normalized(self) -> str:
        """The schema's text to store if a client requests normalization."""
        ...

    def unreadable(self, writer: Any) -> list[str]:
        """Return the reasons why programs with this schema cannot read all data that was written with ``writer``, a schema of the
        same type."""
        ...

    def serialized(self) -> str | None:
        """Return the text for the query parameter ``format=serialized``; None if the type has no such format."""
        ...


Parse = Callable[[str, Sequence[NamedText]], Parsed]
"""Parses the text of a schema. In ``references``, a schema comes before the schemas that use it. Raises `RegistryError`."""


def invalid(kind: str, reason: object) -> RegistryError:
    """Return the error for a text that is not a valid schema."""
    text = " ".join(str(reason).split())[:500]
    return RegistryError(RegistryCode.INVALID_SCHEMA, f"Invalid schema of type {kind}: {text}")
