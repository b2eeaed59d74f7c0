"""Quotas of users, clients and IP addresses, as the cluster stores them. `coordinator.quota` enforces them.

Corresponds to org.apache.kafka.controller.ClientQuotaControlManager. A quota belongs to an entity: a user, a client id, both, or an
IP address. Each of these is a name or the default of its type. An entity has one value for each key, such as
``producer_byte_rate``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any

from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.client_quotas import ENTITY_TYPES, IP
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import client_quota_record

Entity = tuple[tuple[str, str | None], ...]
"""Pairs of a type and a name, where None is the type's default. Sorted by type, so that equal entities compare equal."""

MAX_ENTITIES = 10_000
"""Maximum number of entities with quotas. Kafka only limits one operation to 10,000 records, with the same error code."""
MAX_CHANGED = 1_000
"""Maximum number of changed entities that are stored for `ClientQuotas.take_changed`, which a server without clients never
calls."""
MAX_NAME_CHARACTERS = 1_000
"""Maximum length of a user or client id with quotas. Kafka allows the longest string, 32,767 characters."""

_LARGEST = {"INT": 2**31 - 1, "LONG": 2**63}
_USER_KEYS = {
    "consumer_byte_rate": "LONG",
    "controller_mutation_rate": "DOUBLE",
    "producer_byte_rate": "LONG",
    "request_percentage": "DOUBLE",
}
_ADDRESS_KEYS = {"connection_creation_rate": "INT"}
_SMALLEST_FRACTION = 1e-6


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity for pairs of type and name. If several pairs have the same type, the last counts."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))


class ClientQuotas:
    __slots__ = ("_changed", "by_entity", "change_count")

    def __init__(self) -> None:
        self.by_entity: dict[Entity, dict[str, float]] = {}
        self.change_count = 0
        """Number of records that were replayed, by which a reader notices changes."""
        # The entities that have changed since the last `take_changed`; None if there are too many.
        self._changed: dict[Entity, None] | None = {}

    def alter(self, entity: Entity, changes: Mapping[str, float | None]) -> Result[None]:
        """Set values or, with None, remove them.

        Raises INVALID_REQUEST, or POLICY_VIOLATION for too many entities or too long a name.
        """
        keys = _keys_of(entity)
        own = self.by_entity.get(entity, {})
        records = []
        for key, value in changes.items():
            if value is not None:
                _check_value(keys, key, value)
            if own.get(key) != value:
                records.append(_record(entity, key, value))
        if entity not in self.by_entity and records and len(self.by_entity) >= MAX_ENTITIES:
            reason = f"{MAX_ENTITIES} clients and users have quotas; delete some first"
            raise KafkaError(Code.POLICY_VIOLATION, reason)
        if records and any(len(name or "") > MAX_NAME_CHARACTERS for _, name in entity):
            reason = f"the name of a client or user with quotas has more than {MAX_NAME_CHARACTERS} characters"
            raise KafkaError(Code.POLICY_VIOLATION, reason)
        return Result(None, records)

    def replay(self, message: Any) -> None:
        entity = entity_of((part.entity_type, part.entity_name) for part in message.entity)
        values = self.by_entity.setdefault(entity, {})
        self.change_count += 1
        if self._changed is not None:
            self._changed[entity] = None
            if len(self._changed) > MAX_CHANGED:
                self._changed = None
        if message.remove:
            values.pop(message.key, None)
        else:
            values[message.key] = message.value
        if not values:
            del self.by_entity[entity]

    def take_changed(self) -> Iterable[Entity] | None:
        """Return the entities whose quotas have changed since the last call; None if any may have changed."""
        changed, self._changed = self._changed, {}
        return changed

    def snapshot(self) -> list[LogRecord]:
        """Return records that restore all quotas."""
        return [_record(entity, key, value) for entity, values in self.by_entity.items() for key, value in values.items()]


def _record(entity: Entity, key: str, value: float | None) -> LogRecord:
    named = [client_quota_record.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    message = client_quota_record.ClientQuotaRecord(entity=named, key=key, value=value or 0.0, remove=value is None)
    return metadata_record(client_quota_record, message)


def _keys_of(entity: Entity) -> dict[str, str]:
    if not entity:
        raise KafkaError(Code.INVALID_REQUEST, "Invalid empty client quota entity")
    types = dict(entity)
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise KafkaError(Code.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise KafkaError(Code.INVALID_REQUEST, f"Empty {kind} not supported")
    if IP not in types:
        return _USER_KEYS
    if len(types) > 1:
        reason = "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
        raise KafkaError(Code.INVALID_REQUEST, reason)
    if not _is_address(types[IP]):
        raise KafkaError(Code.INVALID_REQUEST, f"{types[IP]} is not a valid IP address.")
    return _ADDRESS_KEYS


def _is_address(name: str | None) -> bool:
    """Whether a name is an IP address, ``localhost`` or the default. Kafka also accepts host names, which it resolves."""
    try:
        return name is None or name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


def _check_value(keys: Mapping[str, str], key: str, value: float) -> None:
    """Raise INVALID_REQUEST for an unknown key or a value that the key's type does not allow.

    As in Kafka (ClientQuotaControlManager.validateQuotaKeyValue), infinity is a valid DOUBLE. Kafka also accepts NaN.
    """
    kind = keys.get(key)
    if kind is None:
        reason = f"Invalid configuration key {key}"
    elif math.isnan(value) or value <= 0:
        reason = f"Quota {key} must be greater than 0"
    elif kind == "DOUBLE":
        return
    elif value > _LARGEST[kind]:
        reason = f"Proposed value for {key} is too large for a {kind}."
    elif abs(value - math.floor(value + _SMALLEST_FRACTION)) > _SMALLEST_FRACTION:
        reason = f"{key} cannot be a fractional value."
    else:
        return
    raise KafkaError(Code.INVALID_REQUEST, reason)
