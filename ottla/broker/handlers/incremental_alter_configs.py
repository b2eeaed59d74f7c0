"""IncrementalAlterConfigs, versions 0 and 1 (KIP-339): sets or deletes single configs, and appends to lists or subtracts from
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.definitions import Definition, broker_definitions, topic_definitions
from ottla.broker.config.groups import group_definitions
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.config_changes import apply, change_work, check_keys, check_named_once, check_resource, repeated
from ottla.broker.handlers.support.config_permissions import check_configs
from ottla.broker.handlers.support.each import each
from ottla.broker.handlers.support.loggers import APPEND, DELETE, SET, SUBTRACT, VERBS, alter_loggers
from ottla.broker.loop.logs import LogLevels
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.cluster import BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.security.acl.codes import AclOperation


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig
    log_levels: LogLevels


async def handle(ports: Ports, request: IncrementalAlterConfigsRequest, context: RequestContext) -> IncrementalAlterConfigsResponse:
    twice = await repeated(request.resources)
    return await each(
        request.resources,
        lambda resource: _alter(ports, context, resource, twice, request.validate_only),
        lambda results: IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=list(results)),
        work=change_work,
    )


def _alter(
    ports: Ports, context: RequestContext, asked: AlterConfigsResource, twice: set[tuple[int, str]], validate_only: bool
) -> AlterConfigsResourceResponse:
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_named_once(asked, twice)
        check_keys(asked.configs, may_be_null=lambda config: config.config_operation == DELETE)
        check_configs(ports.authorizer, context, AclOperation.ALTER_CONFIGS, kind, name)
        if kind == BROKER_LOGGER_RESOURCE:
            alter_loggers(ports, name, asked.configs, validate_only=validate_only)
            return AlterConfigsResourceResponse(error_code=0, error_message=None, resource_type=kind, resource_name=name)
        if kind != TOPIC_RESOURCE:
            check_resource(ports, kind, name)
        own = ports.cluster.state.config_of(kind, name)
        changes = {config.name: _value(kind, config, own.get(config.name)) for config in asked.configs}
        if kind == TOPIC_RESOURCE:
            # For a topic, Kafka's controller checks the requested operations before the topic's name.
            check_resource(ports, kind, name)
        apply(ports, kind, name, changes, validate_only=validate_only)
    except KafkaError as error:
        return AlterConfigsResourceResponse(
            error_code=error.code, error_message=error.message, resource_type=kind, resource_name=name
        )
    return AlterConfigsResourceResponse(error_code=0, error_message=None, resource_type=kind, resource_name=name)


def _value(kind: int, config: AlterableConfig, own: str | None) -> str | None:
    operation, name, value = config.config_operation, config.name, config.value
    if operation == DELETE:
        return None
    if operation not in (SET, APPEND, SUBTRACT):
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown operations type {operation}")
    if operation == SET or value is None:
        return value
    definition = _definitions(kind).get(name)
    if definition is None or definition.type != "LIST":
        raise KafkaError(Code.INVALID_CONFIG, f"Can't {VERBS[operation]} to key {name} because its type is not LIST.")
    return _combined(definition.default if own is None else own, value, subtract=operation == SUBTRACT)


def _definitions(kind: int) -> Mapping[str, Definition]:
    if kind == TOPIC_RESOURCE:
        return topic_definitions()
    if kind == GROUP_RESOURCE:
        return group_definitions()
    # Kafka's controller treats no config of client metrics as a list, so elements cannot be added.
    return broker_definitions() if kind == BROKER_RESOURCE else {}


def _combined(current: str | None, value: str, *, subtract: bool) -> str:
    """The list with elements added or removed. If the resource does not set the config, Kafka's default list is changed.

    Values of the config in broker.properties or on another resource are ignored (ConfigurationControlManager.getParts).
    """
    parts = [part for part in (current or "").split(",") if part]
    given = value.split(",")
    if subtract:
        taken = set(given)
        return ",".join(p for p in parts if p not in taken)
    known = set(parts)
    return ",".join([*parts, *(p for p in given if p not in known)])


def failed(request: IncrementalAlterConfigsRequest, version: int, code: Code) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=None, resource_type=r.resource_type, resource_name=r.resource_name
            )
            for r in request.resources
        ],
    )


API = Declaration(
    key=44,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER_CONFIGS TOPIC, ALTER_CONFIGS CLUSTER", by_handler=True),
    has_secrets=True,
)
