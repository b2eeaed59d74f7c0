"""The users that ``kafka-storage format --add-scram`` gives to a new directory.

Kafka writes their credentials into the directory, and its first start copies them to the metadata log. Here a file in the directory
has names and passwords. Each start reads it by ``--users-file``, and the first start that succeeds removes it. Such a user has a
credential for each SCRAM mechanism, not only for the given one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.broker.config.first_user import FirstUser
from ottla.security.sasl.scram import NUMBERS
from ottla.storage.filesystem import Filesystem, sync_file, sync_names

FILE: Final = "ottla-first-users"
"""Name of the file in the log directory. Only the broker's user can read it."""
USAGE: Final = "--add-scram 'SCRAM-SHA-512=[name=NAME,password=PASSWORD]'"


class BadScramUser(Exception):
    """A value of ``--add-scram`` that is not supported. The message does not show the password."""


def scram_users(values: Iterable[str]) -> list[FirstUser]:
    """Parse the values of ``--add-scram``. Raises `BadScramUser`."""
    users: dict[str, FirstUser] = {}
    for value in values:
        user = _scram_user(value)
        if users.setdefault(user.name, user) != user:
            raise BadScramUser(f"--add-scram: {user.name!r} has two passwords; give the same password for each mechanism")
    return list(users.values())


def _scram_user(value: str) -> FirstUser:
    mechanism, _, rest = value.strip().partition("=")
    if mechanism not in NUMBERS or not (rest.startswith("[") and rest.endswith("]")):
        raise BadScramUser(f"--add-scram: expected a mechanism with a name and a password; use {USAGE}")
    # As in Kafka (ScramParser), a value cannot contain a comma, and may be in quotation marks.
    parts = (part.partition("=") for part in rest[1:-1].split(","))
    given = {name.strip(): text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text for name, _, text in parts}
    if given.keys() != {"name", "password"} or not all(given.values()):
        found = ", ".join(filter(None, given)) or "nothing"
        raise BadScramUser(f"--add-scram: only name and password are supported, both are needed, not {found}; use {USAGE}")
    name, password = given["name"], given["password"]
    if ":" in name or name != name.strip() or name.startswith("#") or not (name + password).isprintable():
        raise BadScramUser(f"--add-scram: {name!r} has a colon or a space at an end, begins with #, or has a control character")
    return FirstUser(name, password)


def write_users(fs: Filesystem, directory: str, users: Iterable[FirstUser]) -> None:
    """Write the users of a new directory, and sync the file. Raises OSError."""
    path = Path(directory, FILE)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text("".join(f"{user.name}:{user.password}\n" for user in users), encoding="utf-8")
    sync_file(fs, str(path))
    sync_names(fs, directory)


def users_file(directory: str) -> Path | None:
    """Return the file with the users of a directory on which no start has succeeded yet.

    A failed start may have created some of the users. The next start leaves existing credentials unchanged.
    """
    path = Path(directory, FILE)
    return path if path.exists() else None
