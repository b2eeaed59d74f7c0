"""A user that a broker creates when it starts."""

from __future__ import annotations

from typing import NamedTuple


class FirstUser(NamedTuple):
    """A user with a password, for whom the broker creates a credential for each SCRAM mechanism."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"FirstUser({self.name!r})"
