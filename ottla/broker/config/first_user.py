"""A user that a broker creates at its start."""

from __future__ import annotations

from typing import NamedTuple


class FirstUser(NamedTuple):
    """A user to create, with credentials for all SCRAM mechanisms."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"FirstUser({self.name!r})"
