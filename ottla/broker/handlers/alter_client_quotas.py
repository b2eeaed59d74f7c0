"""AlterClientQuotas, versions 0 and 1 (KIP-546): sets the quotas of users, clients and addresses."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.client_quotas import Entity, entity_of
from ottla.protocol.client_quotas import ENTITY_TYPES
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    ResponseEntryData,
)
from ottla.protocol.steps import Pace, next_turn

ENTRY_WORK = 100
OP_WORK = 10
"""Estimated time to handle an entry, and to make a change in it, in units of 2 us."""

MAX_ENTITY_PARTS = len(ENTITY_TYPES)
"""Maximum number of parts of a quota entity, one for each type (user, client id, address).

Further parts have unknown or repeated types; the response omits them.
"""

MAX_OPS = 1_000
"""Maximum number of changes in one entry. Only five keys exist, but as in Kafka a request may remove unknown keys."""


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(ports: Ports, request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    results: dict[Entity, KafkaError | None] = {}
    pace = Pace(double_first=True)
    for entry in request.entries:
        entity = _entity(entry.entity)
        try:
            if len(entry.entity) > MAX_ENTITY_PARTS:
                reason = f"an entity of {len(entry.entity)} parts; at most {MAX_ENTITY_PARTS} are allowed"
                raise KafkaError(Code.INVALID_REQUEST, reason)
            if entity in results:
                raise KafkaError(Code.INVALID_REQUEST, f"Ignoring duplicate entity {dict(entity)}")
            ports.cluster.alter_quotas(entity, _changes(entry.ops), validate_only=request.validate_only)
            results[entity] = None
        except KafkaError as error:
            results[entity] = error
        if pace.spend(ENTRY_WORK + len(entry.ops) * OP_WORK):
            await next_turn()
    return AlterClientQuotasResponse(throttle_time_ms=0, entries=[_answer(entity, error) for entity, error in results.items()])


def _entity(named: list[EntityData]) -> Entity:
    return entity_of((part.entity_type, part.entity_name) for part in named[:MAX_ENTITY_PARTS])


def _changes(ops: list[OpData]) -> dict[str, float | None]:
    """The new quotas by key; None removes a quota.

    Raises INVALID_REQUEST for a repeated key, POLICY_VIOLATION for too many changes.
    """
    if len(ops) > MAX_OPS:
        raise KafkaError(Code.POLICY_VIOLATION, f"the request has {len(ops)} quotas for one entity; at most {MAX_OPS} are allowed")
    changes = {op.key: None if op.remove else op.value for op in ops}
    if len(changes) < len(ops):
        raise KafkaError(Code.INVALID_REQUEST, "Duplicate quota key, not updating quota for this entity")
    return changes


def _answer(entity: Entity, error: KafkaError | None) -> ResponseEntryData:
    return ResponseEntryData(
        error_code=Code.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def failed(request: AlterClientQuotasRequest, version: int, code: Code) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        throttle_time_ms=0, entries=[_answer(_entity(entry.entity), KafkaError(code)) for entry in request.entries]
    )


API = Declaration(key=49, handle=handle, failed=failed, authorisation=authorisations("ALTER_CONFIGS CLUSTER"))
