"""DescribeConfigs, versions 1 to 4 (KIP-133): shows configs of topics, this broker and its loggers, groups and client metrics.

- 1 (KIP-226): the response has the source of each value, and overridden values (synonyms).
- 3 (KIP-569): the response has types and documentation.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.definitions import documentation
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.config_permissions import check_configs
from ottla.broker.handlers.support.configs import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from ottla.broker.handlers.support.each import made
from ottla.broker.handlers.support.loggers import logger_entries
from ottla.broker.loop.logs import LogLevels
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.cluster import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation

RESOURCE_WORK = 500
"""Estimated time to describe a resource, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig
    log_levels: LogLevels


async def handle(ports: Ports, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    results, pace = [], Pace(double_first=True)
    for resource in request.resources:
        if pace.spend(RESOURCE_WORK):
            await next_turn()
        keys = resource.configuration_keys or []
        # An empty list of keys requests all keys.
        wanted: set[str] = await made(partial(set, keys), len(keys))
        results.append(_describe(ports, context, request, resource, wanted))
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def _describe(
    ports: Ports,
    context: RequestContext,
    request: DescribeConfigsRequest,
    asked: DescribeConfigsResource,
    wanted: set[str],
) -> DescribeConfigsResult:
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_configs(ports.authorizer, context, AclOperation.DESCRIBE_CONFIGS, kind, name)
        entries = _entries(ports, kind, name)
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code, error_message=error.message or "", resource_type=kind, resource_name=name
        )
    shown = [_shown(entry, request) for entry in entries if not wanted or entry.name in wanted]
    return DescribeConfigsResult(error_code=0, error_message="", resource_type=kind, resource_name=name, configs=shown)


def _entries(ports: Ports, kind: int, name: str) -> list[ConfigEntry]:
    if kind == TOPIC_RESOURCE:
        check_topic_name(name)
        ports.cluster.state.topic(name)
        return topic_entries(ports, name)
    if kind == GROUP_RESOURCE:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, "Group name must not be empty")
        return group_entries(ports, name)
    if kind == CLIENT_METRICS_RESOURCE:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return client_metrics_entries(ports, name)
    if kind == BROKER_LOGGER_RESOURCE:
        return logger_entries(ports, name)
    if kind != BROKER_RESOURCE:
        raise KafkaError(Code.INVALID_REQUEST, f"Unsupported resource type {kind}")
    if not name:
        return cluster_entries(ports)
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    node_id = ports.live_config.settings.node_id
    if name != str(node_id):
        raise KafkaError(Code.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} or empty string, but received {name}")
    return broker_entries(ports)


def _shown(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in entry.synonyms]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=_text(entry) if request.include_documentation else None,
    )


def _text(entry: ConfigEntry) -> str | None:
    return documentation().get((entry.scope, entry.name)) if entry.documentation is None else entry.documentation


def failed(request: DescribeConfigsRequest, version: int, code: Code) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[
            DescribeConfigsResult(error_code=code, error_message=None, resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ],
    )


API = Declaration(
    key=32,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE_CONFIGS TOPIC, DESCRIBE_CONFIGS CLUSTER", by_handler=True),
    is_bulky=True,
    has_secrets=True,
)
