"""Registers and deletes schemas of the console's schema registry, and sets compatibility levels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec

from ottla.client.errors import ClientError
from ottla.client.schema_registry.references import MAX_REFERENCES
from ottla.client.schema_registry.registry_admin import (
    ChangeRequest,
    Level,
    RegistryAdmin,
    level_change,
    registration,
    subject_deletion,
    version_deletion,
)
from ottla.client.schema_registry.registry_client import RegisteredSchema, Registry, SchemaReference
from ottla.client.wording import counted
from ottla.console.actions.action import ActionClients, Effects, Name, shortened
from ottla.console.actions.encoded_parts import MAX_VERSION
from ottla.console.actions.produce_arguments import COMMAND_BYTES
from ottla.console.registry_requests import concurrently

REASONS_SHOWN: Final = 5
"""Maximum number of reasons for an incompatibility in an error."""
USERS_SHOWN: Final = 5
"""Maximum number of schemas, and of versions with one of these schemas, that an error shows as users of a version."""
CHECK_TIMEOUT_S: Final = 10.0
"""Timeout, in seconds, for a preview's requests for the schemas that refer to a subject."""
VERSIONS_CHECKED: Final = 200
"""Maximum number of versions of a subject for which a preview requests the schemas that refer to them."""
REGISTRY: Final = "the registry"

Version = Annotated[int, msgspec.Meta(ge=1, le=MAX_VERSION)]
Subject = Annotated[Name, msgspec.Meta(min_length=1)]


class ReferencedSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schema of another subject that the text uses under ``name``."""

    name: Name
    subject: Subject
    version: Version


class RegisterSchema(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Register a schema as the next version of a subject. The preview asks the registry whether the subject's compatibility level
    allows the schema."""

    subject: Subject
    text: str
    kind: Literal["AVRO", "JSON", "PROTOBUF"] = "AVRO"
    references: Annotated[list[ReferencedSchema], msgspec.Meta(max_length=MAX_REFERENCES)] = []

    def preview(self, to: ActionClients) -> Effects:
        if not self.text.strip():
            raise ClientError("the schema has no text; give one")
        admin, schema = RegistryAdmin(to.registry()), self._schema()
        known = admin.version_with(self.subject, schema)
        if known is not None:
            raise ClientError(f"subject {self.subject!r} has this schema already, as version {known.version}")
        level = admin.level(self.subject) or admin.level()
        reasons = admin.incompatibilities(self.subject, schema)
        if reasons:
            said = "; ".join(" ".join(reason.split()) for reason in reasons[:REASONS_SHOWN])
            raise ClientError(f"the schema is not compatible with subject {self.subject!r} (level {level}): {said}")
        latest = admin.version(self.subject)
        return _effects(
            to.registry().registry,
            self._change(),
            columns=["subject", "latest version", "compatibility level", "new schema"],
            rows=[[self.subject, "none" if latest is None else latest.version, level, "is compatible"]],
        )

    def run(self, to: ActionClients) -> Effects:
        admin = RegistryAdmin(to.registry())
        number = admin.registered_id(self._change())
        try:
            registered = admin.version_with(self.subject, self._schema())
        except ClientError:
            # The schema is registered. Only its version is unknown.
            registered = None
        version = {} if registered is None else {"version": registered.version}
        said = f"subject {self.subject} has the schema as version {version.get('version', 'unknown')}, with the schema id {number}"
        return Effects(said=said, page="subject", parameters={"name": self.subject, **version})

    def _change(self) -> ChangeRequest:
        return registration(self.subject, self._schema())

    def _schema(self) -> RegisteredSchema:
        references = (SchemaReference(name=one.name, subject=one.subject, version=one.version) for one in self.references)
        return RegisteredSchema(text=self.text, kind=self.kind, references=tuple(references))


class DeleteSchemaVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Soft-delete a version, or with ``is_permanent`` delete a soft-deleted version permanently."""

    subject: Subject
    version: Version
    is_permanent: bool = False

    def preview(self, to: ActionClients) -> Effects:
        admin = RegistryAdmin(to.registry())
        found = admin.version(self.subject, self.version, deleted=True)
        if found is None:
            raise ClientError(f"unknown version {self.version} of subject {self.subject!r} at {admin.url}")
        what = f"version {self.version} of subject {self.subject!r}"
        is_deleted = self.version not in admin.versions(self.subject)
        _check_deletion(what, is_deleted=is_deleted, is_permanent=self.is_permanent)
        _check_unreferenced(admin, what, self.subject, [self.version])
        return _effects(
            to.registry().registry,
            self._change(),
            warning=_loss(f"values with the schema id {found.id}", is_permanent=self.is_permanent),
            columns=["subject", "version", "schema id", "type"],
            rows=[[self.subject, found.version, found.id, found.kind]],
        )

    def run(self, to: ActionClients) -> Effects:
        RegistryAdmin(to.registry()).change(self._change())
        said = f"version {self.version} of subject {self.subject} was deleted{' permanently' if self.is_permanent else ''}"
        return Effects(said=said, page="schemas")

    def _change(self) -> ChangeRequest:
        return version_deletion(self.subject, self.version, is_permanent=self.is_permanent)


class DeleteSubject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Soft-delete all versions of a subject, or with ``is_permanent`` delete its soft-deleted versions permanently."""

    subject: Subject
    is_permanent: bool = False

    def preview(self, to: ActionClients) -> Effects:
        admin = RegistryAdmin(to.registry())
        live = admin.versions(self.subject)
        known = live if live and not self.is_permanent else admin.versions(self.subject, deleted=True)
        if not known:
            raise ClientError(f"unknown subject {self.subject!r} at {admin.url}")
        what = f"subject {self.subject!r}"
        _check_deletion(what, is_deleted=not live, is_permanent=self.is_permanent)
        _check_unreferenced(admin, what, self.subject, known)
        return _effects(
            to.registry().registry,
            self._change(),
            warning=f"{counted(len(known), 'version')} of the subject will be deleted:"
            f" {_loss('values with their schemas', is_permanent=self.is_permanent)}",
            columns=["version"],
            **shortened([[version] for version in known]),
        )

    def run(self, to: ActionClients) -> Effects:
        RegistryAdmin(to.registry()).change(self._change())
        return Effects(said=f"subject {self.subject} was deleted{' permanently' if self.is_permanent else ''}", page="schemas")

    def _change(self) -> ChangeRequest:
        return subject_deletion(self.subject, is_permanent=self.is_permanent)


class SetCompatibility(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Set the compatibility level of a subject, or of the registry if ``subject`` is None. The level None removes the subject's own
    level, so that the registry's level applies."""

    subject: Subject | None = None
    level: Level | None

    def preview(self, to: ActionClients) -> Effects:
        if self.subject is None and self.level is None:
            raise ClientError("the registry has no other level that could apply; give one")
        admin = RegistryAdmin(to.registry())
        of_registry = admin.level()
        before = of_registry if self.subject is None else admin.level(self.subject)
        if self.level is None and before is None:
            raise ClientError(f"subject {self.subject!r} has no level of its own")
        inherited = f"{of_registry}, of {REGISTRY}"
        return _effects(
            to.registry().registry,
            self._change(),
            columns=["level of", "before", "after"],
            rows=[[self.subject or REGISTRY, before or inherited, self.level or inherited]],
        )

    def run(self, to: ActionClients) -> Effects:
        RegistryAdmin(to.registry()).change(self._change())
        of = REGISTRY if self.subject is None else f"subject {self.subject}"
        said = f"{of} has the level of {REGISTRY}" if self.level is None else f"{of} has the compatibility level {self.level}"
        return Effects(said=said)

    def _change(self) -> ChangeRequest:
        return level_change(self.subject, self.level)


def _check_deletion(what: str, *, is_deleted: bool, is_permanent: bool) -> None:
    if is_permanent and not is_deleted:
        raise ClientError(f"{what} is not soft-deleted; delete it softly first")
    if is_deleted and not is_permanent:
        raise ClientError(f"{what} is soft-deleted already; it can be deleted permanently")


def _check_unreferenced(admin: RegistryAdmin, what: str, subject: str, versions: Sequence[int]) -> None:
    """Raise `ClientError` if schemas refer to one of the newest `VERSIONS_CHECKED` versions. The registry checks all versions."""
    newest = sorted(versions)[-VERSIONS_CHECKED:]
    check = _deadline(what)
    found = concurrently([partial(admin.users, subject, version) for version in newest], check)
    users = [(version, number) for version, numbers in zip(newest, found, strict=True) for number in numbers]
    if not users:
        return
    shown = users[:USERS_SHOWN]
    places = concurrently([partial(admin.places, number) for _, number in shown], check)
    texts = []
    for (version, number), of_schema in zip(shown, places, strict=True):
        by = " and ".join(f"version {at} of {name!r}" for name, at in of_schema[:USERS_SHOWN]) or f"schema id {number}"
        texts.append(f"version {version} is used by {by}")
    if len(users) > len(shown):
        texts.append(f"and {counted(len(users) - len(shown), 'more schema')}")
    listed = ", ".join(texts)
    raise ClientError(
        f"the registry refuses to delete {what}, because other schemas refer to it: {listed}; delete these versions first"
    )


def _deadline(what: str) -> Callable[[], None]:
    """Return a function that raises `ClientError` if it is called more than `CHECK_TIMEOUT_S` from now."""
    end_s = time.monotonic() + CHECK_TIMEOUT_S

    def check() -> None:
        if time.monotonic() >= end_s:
            raise ClientError(
                f"the registry did not say within {CHECK_TIMEOUT_S:.0f} s whether other schemas refer to {what}; try again later"
            )

    return check


def _loss(values: str, *, is_permanent: bool) -> str:
    if is_permanent:
        return f"{values} can no longer be decoded, unless another subject has the schema; this cannot be undone"
    return f"clients no longer find it by its subject; {values} can still be decoded until it is deleted permanently"


def _effects(registry: Registry, change: ChangeRequest, *, warning: str = "", **shown: Any) -> Effects:
    """Return a preview with the ``curl`` command of a change. The command has no password: for a user, curl asks for it."""
    if change.body is not None and len(change.body) > COMMAND_BYTES:
        problem = f"there is no equivalent command: the schema has more than {COMMAND_BYTES >> 10} KiB"
        return Effects(warning="; ".join(filter(None, [warning, problem])), **shown)
    curl = ["-X", change.method]
    if {".", ".."}.intersection(change.path.partition("?")[0].split("/")):
        # By default, curl removes such parts of a path.
        curl.append("--path-as-is")
    if registry.token.text:
        curl += ["--oauth2-bearer", "TOKEN"]
    elif registry.user:
        curl += ["-u", registry.user]
    if change.body is not None:
        curl += ["-H", "Content-Type: application/json", "-d", change.body.decode()]
    return Effects(curl=[*curl, registry.url.rstrip("/") + change.path], warning=warning, **shown)
