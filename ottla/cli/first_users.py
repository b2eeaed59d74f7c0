"""Parses the users that ``ottla serve`` creates when it starts: ``--user`` and ``--users-file``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ottla.arguments import BadArgument
from ottla.broker.config.first_user import FirstUser

COMMENT = "#"
"""Lines of ``--users-file`` that begin with this character are ignored."""


def first_user(text: str) -> FirstUser:
    """Parse ``NAME:PASSWORD``. The password may contain colons. Raises `BadArgument` without showing the password."""
    name, colon, password = text.partition(":")
    if not colon or not name or not password:
        raise BadArgument("expected NAME:PASSWORD, as in alice:secret")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadArgument("the name or the password is not UTF-8 text") from None
    return FirstUser(name, password)


def users_of_file(path: Path | None) -> list[FirstUser]:
    """Read a user from each line, except blank lines and lines that begin with ``#``. Spaces around a name are removed; spaces
    around a password belong to it. Raises `BadArgument` without showing passwords."""
    if path is None:
        return []
    try:
        # `utf-8-sig` removes the byte order mark that some editors write.
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise BadArgument(f"--users-file: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadArgument(f"--users-file: {path} is not UTF-8 text") from None
    users = []
    for number, line in enumerate(lines, 1):
        text = line.lstrip()
        try:
            users += [_of_line(text.removesuffix("\r"))] if text and not text.startswith(COMMENT) else []
        except BadArgument as error:
            raise BadArgument(f"--users-file: line {number} of {path}: {error}") from None
    return users


def _of_line(text: str) -> FirstUser:
    name, colon, password = text.partition(":")
    return first_user(f"{name.rstrip()}{colon}{password}")


def check_names(users: Iterable[FirstUser]) -> None:
    """Raise `BadArgument` for a user name that is given twice."""
    for name, count in Counter(user.name for user in users).items():
        if count > 1:
            raise BadArgument(f"--user {name} is given twice; give each user once")
