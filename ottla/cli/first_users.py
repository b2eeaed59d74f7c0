"""Parses the users that ``ottla serve --user`` creates when it starts."""

from __future__ import annotations

from ottla.arguments import BadArgument
from ottla.broker.config.first_user import FirstUser


def first_user(text: str) -> FirstUser:
    """Parse ``NAME:PASSWORD``. The password may contain colons. Raises `BadArgument` without showing the password."""
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise BadArgument("expected NAME:PASSWORD, as in alice:secret")
    return FirstUser(name, password)
