"""Finds the schemas to which a schema refers, directly or through others, for clients of a registry and for ottla's registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

MAX_REFERENCES: Final = 1_000
"""Maximum number of schemas that a schema refers to, directly or through others. A client sends a request for each schema."""


class NamedSchema(Protocol):
    """A reference to a schema."""

    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=NamedSchema)
S = TypeVar("S")


class TooManyReferences(Exception):
    """A schema refers to more than `MAX_REFERENCES` schemas."""


def resolved(references: Sequence[R], resolve: Callable[[R], tuple[S, Sequence[R]]]) -> dict[str, S]:
    """Return the schemas to which ``references`` lead, directly or through others, by reference name; each schema follows those to
    which it refers.

    ``resolve`` looks up a reference and returns a schema and its references. It is called once for each name, so that cycles end.
    Raises `TooManyReferences`.
    """
    found: dict[str, S] = {}
    schemas: dict[str, S] = {}
    walk: list[tuple[str | None, Iterator[R]]] = [(None, iter(references))]
    while walk:
        owner, remaining = walk[-1]
        reference = next(remaining, None)
        if reference is None:
            walk.pop()
            if owner is not None:
                found[owner] = schemas[owner]
        elif reference.name not in schemas:
            if len(schemas) >= MAX_REFERENCES:
                raise TooManyReferences
            schemas[reference.name], further = resolve(reference)
            walk.append((reference.name, iter(further)))
    return found
