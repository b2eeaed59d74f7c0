"""The pages ``schemas`` and ``subject``: the subjects and versions of the console's schema registry."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ottla.console.page_request import Asked
from ottla.console.paging import matching, part_of
from ottla.console.registry_requests import concurrently
from ottla.control.command import CommandRefused

if TYPE_CHECKING:
    from ottla.client.schema_registry.registry_admin import RegistryAdmin, SubjectVersion

INTERVAL_S: Final = 5.0
"""Interval, in seconds, at which an open page requests values from the registry. After an action the page requests them at once."""
SHOWN_CHARACTERS: Final = 200_000
"""Maximum number of characters of a schema that are shown."""
USERS_SHOWN: Final = 20
"""Maximum number of schemas that are shown as users of a version, and of versions with each of these schemas."""


def schemas(asked: Asked) -> dict[str, Any]:
    """Return the subjects, also those whose versions are all soft-deleted, with the latest version of each shown subject."""
    admin = _admin(asked)

    def read() -> dict[str, Any]:
        first: list[Callable[[], Any]] = [admin.subjects, partial(admin.subjects, deleted=True), admin.level]
        of_live, of_all, level = concurrently(first, asked.deadline.check)
        live = set(of_live)
        part = part_of(matching(sorted(live.union(of_all)), asked, str), asked)
        requests = [partial(_row, admin, name, is_deleted=name not in live) for name in part.rows]
        rows = concurrently(requests, asked.deadline.check)
        return {"url": admin.url, "level": level, "part": msgspec.structs.replace(part, rows=rows)}

    return asked.last_read.get(_interval(), read)


def _row(admin: RegistryAdmin, name: str, *, is_deleted: bool) -> dict[str, Any]:
    from ottla.client.schema_registry.registry_admin import RegistryRefused

    row: dict[str, Any] = {"subject": name, "is_deleted": is_deleted, "problem": ""}
    try:
        latest = admin.version(name, deleted=is_deleted)
    except RegistryRefused as error:
        # A registry may hide single subjects from this user.
        return {**row, "problem": str(error)}
    if latest is None:
        return {**row, "problem": "it was deleted meanwhile"}
    return {**row, "version": latest.version, "id": latest.id, "kind": latest.kind}


def subject(asked: Asked) -> dict[str, Any]:
    """Return the versions of a subject, the newest first, and the schema of the query's ``version``, by default of the latest."""
    admin, name, wanted = _admin(asked), asked.required("name"), asked.number("version")

    def read() -> dict[str, Any]:
        first: list[Callable[[], Any]] = [
            partial(admin.versions, name, deleted=True),
            partial(admin.versions, name),
            partial(admin.level, name),
            admin.level,
        ]
        everything, of_live, level, global_level = concurrently(first, asked.deadline.check)
        live = set(of_live)
        number = wanted or max(live or everything, default=0)
        shown, users = None, []
        if number in everything:
            of_version: list[Callable[[], Any]] = [
                partial(admin.version, name, number, deleted=True),
                partial(admin.users, name, number),
            ]
            shown, users = concurrently(of_version, asked.deadline.check)
        if shown is None:
            unknown = f"unknown version {number} of subject {name!r}" if everything else f"unknown subject {name!r}"
            raise CommandRefused(404, f"{unknown} at {admin.url}")
        part = part_of(sorted(everything, reverse=True), asked)
        rows = [{"version": one, "is_deleted": one not in live} for one in part.rows]
        return {
            "name": name,
            "level": level,
            "global_level": global_level,
            "has_live_versions": bool(live),
            "shown": {**_schema(shown), **_users(asked, admin, users), "is_deleted": number not in live},
            "part": msgspec.structs.replace(part, rows=rows),
        }

    return asked.last_read.get(_interval(), read)


def _schema(version: SubjectVersion) -> dict[str, Any]:
    text = _formatted(version)
    return {
        "version": version.version,
        "id": version.id,
        "kind": version.kind,
        "text": text[:SHOWN_CHARACTERS],
        "characters": len(text),
        "references": version.references,
    }


def _formatted(version: SubjectVersion) -> str:
    """Return the text of a schema, with a line for each field if it is JSON. Numbers keep their digits."""
    try:
        return msgspec.json.format(version.text, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        # The text of a Protobuf schema is not JSON.
        return version.text


def _users(asked: Asked, admin: RegistryAdmin, ids: list[int]) -> dict[str, Any]:
    shown = ids[:USERS_SHOWN]
    places = concurrently([partial(admin.places, number) for number in shown], asked.deadline.check)
    users = [{"id": number, "versions": of[:USERS_SHOWN]} for number, of in zip(shown, places, strict=True)]
    return {"users": users, "more_users": len(ids) - len(users)}


def _admin(asked: Asked) -> RegistryAdmin:
    # Imported for the first page, because most consoles have no registry.
    from ottla.client.schema_registry.registry_admin import RegistryAdmin

    if asked.registered is None:
        raise CommandRefused(404, "this console has no schema registry")
    return RegistryAdmin(asked.registered.client())


def _interval() -> int:
    return int(time.monotonic() / INTERVAL_S)
