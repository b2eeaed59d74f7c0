"""Which quota applies to a client, and which clients share it (DefaultQuotaCallback).

The most specific quota applies: that of the user and client id, the user and any client id, the user, any user and the client id,
any user and any client id, any user, the client id, any client id.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from ottla.coordinator.metadata.client_quotas import Entity
from ottla.protocol.client_quotas import CLIENT_ID, USER

BY_CLIENT_ID, BY_USER, BY_BOTH = 1, 2, 4
"""Bits for the kinds of entities that have a quota."""


MAX_NAME_CHARACTERS = 255
"""Maximum length of a user or client id that is measured. A sensor keeps both, and both are labels of metrics."""
_DIGEST_BYTES = 16


class Sharing(NamedTuple):
    """The user and client id of the clients that share a quota. Long names are shortened. An empty name means any name."""

    user: str
    client_id: str


def shortened(name: str) -> str:
    """Return the name, or if it is longer than `MAX_NAME_CHARACTERS`, its beginning with a digest of the whole name.

    Due to the digest, clients with the same beginning of their names share no quota, as in Kafka.
    """
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    digest = blake2b(name.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{name[: MAX_NAME_CHARACTERS - len(digest) - 1]}~{digest}"


def of_both(user: str | None, client_id: str | None) -> Entity:
    return ((CLIENT_ID, client_id), (USER, user))


def of_user(user: str | None) -> Entity:
    return ((USER, user),)


def of_client_id(client_id: str | None) -> Entity:
    return ((CLIENT_ID, client_id),)


class Limits:
    """The values of one quota key by entity. None as a name is the default of the entity's type."""

    __slots__ = ("_counts", "_kinds", "by_entity")

    def __init__(self, by_entity: Mapping[Entity, float]) -> None:
        self.by_entity: dict[Entity, float] = {}
        self._counts = {BY_CLIENT_ID: 0, BY_USER: 0, BY_BOTH: 0}
        self._kinds = 0
        for entity, value in by_entity.items():
            self.set(entity, value)

    def set(self, entity: Entity, value: float | None) -> None:
        """Set the value of an entity or, with None, remove it."""
        entity = tuple((of, name and shortened(name)) for of, name in entity)
        kind = BY_BOTH if len(entity) > 1 else BY_USER if entity[0][0] == USER else BY_CLIENT_ID
        if value is not None:
            self._counts[kind] += entity not in self.by_entity
            self.by_entity[entity] = value
        elif self.by_entity.pop(entity, None) is not None:
            self._counts[kind] -= 1
        self._kinds = self._kinds | kind if self._counts[kind] else self._kinds & ~kind

    def sharing(self, user: str, client_id: str) -> Sharing:
        """The clients that share a quota with this client."""
        user, client_id = shortened(user), shortened(client_id)
        if self._kinds in (0, BY_CLIENT_ID):
            return Sharing("", client_id)
        if self._kinds == BY_USER:
            return Sharing(user, "")
        limits = self.by_entity
        if self._kinds == BY_BOTH or of_both(user, client_id) in limits or of_both(user, None) in limits:
            return Sharing(user, client_id)
        if of_user(user) in limits:
            return Sharing(user, "")
        if of_both(None, client_id) in limits or of_both(None, None) in limits:
            return Sharing(user, client_id)
        return Sharing(user, "") if of_user(None) in limits else Sharing("", client_id)

    def limit(self, sharing: Sharing) -> float | None:
        """The quota of the clients in ``sharing``; None without a quota."""
        user, client_id = sharing
        if user and client_id:
            entities = [of_both(user, client_id), of_both(user, None), of_both(None, client_id), of_both(None, None)]
        elif user:
            entities = [of_user(user), of_user(None)]
        elif client_id:
            entities = [of_client_id(client_id), of_client_id(None)]
        else:
            return None
        return next((self.by_entity[entity] for entity in entities if entity in self.by_entity), None)
