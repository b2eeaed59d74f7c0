"""DescribeClientQuotas, versions 0 and 1 (KIP-546): lists the stored quotas of users, clients and addresses."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.client_quotas import Entity
from ottla.protocol.client_quotas import BY_DEFAULT, ENTITY_TYPES, EXACTLY, IP, MATCH_TYPES, WHATEVER
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.protocol.steps import Pace, next_turn

Filter = dict[str, tuple[bool, str | None]]
"""The requested name by entity type: (True, name) for one name, (True, None) for the type's default, (False, None) for every
name."""


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(ports: Ports, request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    try:
        wanted = _filter(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message, entries=None)
    return await _in_steps(ports, wanted, is_strict=request.strict)


def _filter(components: list[ComponentData]) -> Filter:
    wanted: Filter = {}
    for component in components:
        kind, how, match = component.entity_type, component.match_type, component.match
        if not kind:
            raise KafkaError(Code.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise KafkaError(Code.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(Code.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if how not in MATCH_TYPES:
            raise KafkaError(Code.INVALID_REQUEST, f"Unknown match type {how}")
        if how == EXACTLY and match is None:
            raise KafkaError(Code.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if how != EXACTLY and match is not None:
            name = "DEFAULT" if how == BY_DEFAULT else "SPECIFIED"
            raise KafkaError(Code.INVALID_REQUEST, f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
        wanted[kind] = (how != WHATEVER, match)
    if IP in wanted and len(wanted) > 1:
        reason = "IP filter component should not be used with user or clientId filter component."
        raise KafkaError(Code.INVALID_REQUEST, f"Invalid entity filter component combination. {reason}")
    return wanted


async def _in_steps(ports: Ports, wanted: Filter, *, is_strict: bool) -> DescribeClientQuotasResponse:
    entries, pace = [], Pace(double_first=True)
    for entity, values in list(ports.cluster.state.client_quotas.by_entity.items()):
        if _matches(entity, wanted, is_strict=is_strict):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in values.items()],
                )
            )
        if pace.spend(2):
            await next_turn()
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=0, error_message="", entries=entries)


def _matches(entity: Entity, wanted: Filter, *, is_strict: bool) -> bool:
    parts = dict(entity)
    if is_strict and len(parts) != len(wanted):
        return False
    return all(kind in parts and (not is_one or parts[kind] == name) for kind, (is_one, name) in wanted.items())


def failed(request: DescribeClientQuotasRequest, version: int, code: Code) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=code, error_message=None, entries=None)


API = Declaration(
    key=48,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE_CONFIGS CLUSTER"),
    is_bulky=True,
)
