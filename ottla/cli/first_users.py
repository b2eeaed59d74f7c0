"""The users that ``ottla serve`` creates at its start, from ``--user``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.arguments import BadArgument
from ottla.broker.config.first_user import FirstUser


def first_user(text: str) -> FirstUser:
    """Parse ``NAME:PASSWORD``. The password may have further colons. Raises `BadArgument`, without the password."""
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise BadArgument("expected NAME:PASSWORD, as in alice:secret")
    return FirstUser(name, password)


def check_names(users: Iterable[FirstUser]) -> None:
    """Raise `BadArgument` for a user who is given twice, perhaps with two passwords."""
    for name, count in Counter(user.name for user in users).items():
        if count > 1:
            raise BadArgument(f"--user {name} is given twice; give each user once")
