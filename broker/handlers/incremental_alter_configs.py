"""IncrementalAlterConfigs, versions 0 and 1 (KIP-339): set, delete, append to and subtract from single configs."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.config.definitions import broker_definitions, topic_definitions
from broker.config.topics import effective
from broker.handlers.configs import APPEND, DELETE, SET, SUBTRACT, appended, check_resource, check_value
from coordinator.cluster import TOPIC_RESOURCE
from protocol.errors import Code, KafkaError
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(context: Context, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(0, [_alter(context, r, request.validate_only) for r in request.resources])


def _alter(context: Context, asked: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
    broker = context.broker
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_resource(broker, kind, name)
        changes: dict[str, str | None] = {}
        for config in asked.configs:
            if config.name in changes:
                raise KafkaError(Code.INVALID_REQUEST, f"{config.name} is named more than once")
            changes[config.name] = _value(context, kind, name, config)
        if not validate_only:
            broker.cluster.set_configs(kind, name, changes)
    except KafkaError as error:
        return AlterConfigsResourceResponse(error.code, error.message, kind, name)
    return AlterConfigsResourceResponse(0, None, kind, name)


def _value(context: Context, kind: int, resource: str, config: AlterableConfig) -> str | None:
    operation, value = config.config_operation, config.value
    if operation == DELETE:
        return None
    if value is None or operation not in (SET, APPEND, SUBTRACT):
        raise KafkaError(Code.INVALID_REQUEST, f"operation {operation} on {config.name} without a value")
    if operation != SET:
        definition = (topic_definitions() if kind == TOPIC_RESOURCE else broker_definitions()).get(config.name)
        if definition is None or definition.type != "LIST":
            raise KafkaError(Code.INVALID_CONFIG, f"Can't append to or subtract from {config.name}: it is not a list.")
        own = context.broker.cluster.state.config_of(kind, resource)
        current = effective(config.name, own, context.broker.config) if kind == TOPIC_RESOURCE else own.get(config.name)
        value = appended(current, value, subtract=operation == SUBTRACT)
    check_value(kind, config.name, value)
    return value


def failed(request: IncrementalAlterConfigsRequest, version: int, code: Code) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        0, [AlterConfigsResourceResponse(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API = Declaration(44, handle, failed)
