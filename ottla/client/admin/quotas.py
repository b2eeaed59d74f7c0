"""Sets, lists and removes the quotas of users, client ids and addresses (AlterClientQuotas, DescribeClientQuotas)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import check
from ottla.protocol.client_quotas import BY_DEFAULT, CLIENT_ID, EXACTLY, IP, USER
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Entity = Mapping[str, str | None]
"""Names to which a quota applies, by type (user, client id, address). None means all names of the type without quotas of their
own."""

_DEFAULTS: Final = {USER: "users by default", CLIENT_ID: "client ids by default", IP: "addresses by default"}


@dataclass(slots=True, frozen=True)
class EntityQuotas:
    """The quotas of one entity by key, such as ``producer_byte_rate``."""

    entity: dict[str, str | None]
    values: dict[str, float]


def entity_text(entity: Entity) -> str:
    """Return a description of an entity, such as ``user alice``."""
    parts = (_DEFAULTS[kind] if entity[kind] is None else f"{kind} {entity[kind]}" for kind in _DEFAULTS if kind in entity)
    return ", ".join(parts)


def alter_quotas(brokers: BrokerConnections, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Set quotas of an entity, or remove quotas whose value is None. Raises `KafkaAnswered`."""
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=named, ops=ops)], validate_only=False)
    what = f"changing the quotas of {entity_text(entity)}"

    def attempt() -> None:
        result = brokers.ask(brokers.controller(), request).entries[0]
        check(what, result.error_code, result.error_message)

    brokers.until_final(what, attempt)


def list_quotas(brokers: BrokerConnections, entity: Entity, *, is_strict: bool = False) -> list[EntityQuotas]:
    """List the quotas of entities that contain all names of ``entity``; with ``is_strict`` they contain no other names.

    Raises `KafkaAnswered`.
    """
    components = [
        ComponentData(entity_type=kind, match_type=BY_DEFAULT if name is None else EXACTLY, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=is_strict)

    def attempt() -> Any:
        answer = brokers.ask(brokers.anyone(), request)
        check("asking for quotas", answer.error_code, answer.error_message)
        return answer.entries or []

    entries = brokers.until_final("asking for quotas", attempt)
    listed = [
        EntityQuotas({p.entity_type: p.entity_name for p in entry.entity}, {v.key: v.value for v in sorted(entry.values, key=_key)})
        for entry in entries
    ]
    return sorted(listed, key=_order)


def _order(quotas: EntityQuotas) -> list[tuple[bool, bool, str]]:
    return [
        (kind in quotas.entity, quotas.entity.get(kind) is None, quotas.entity.get(kind) or "") for kind in (USER, CLIENT_ID, IP)
    ]


def _key(value: Any) -> str:
    key: str = value.key
    return key
