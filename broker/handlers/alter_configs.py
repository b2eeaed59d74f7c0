"""AlterConfigs, versions 0 to 2 (KIP-133): replaces all configs of a resource by those that are given."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.configs import check_resource, check_value
from protocol.errors import Code, KafkaError
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
    return AlterConfigsResponse(0, [_alter(context, r, request.validate_only) for r in request.resources])


def _alter(context: Context, asked: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
    broker = context.broker
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_resource(broker, kind, name)
        changes: dict[str, str | None] = dict.fromkeys(broker.cluster.state.config_of(kind, name))
        for config in asked.configs:
            if config.value is not None:
                check_value(kind, config.name, config.value)
            changes[config.name] = config.value
        if not validate_only:
            broker.cluster.set_configs(kind, name, changes)
    except KafkaError as error:
        return AlterConfigsResourceResponse(error.code, error.message, kind, name)
    return AlterConfigsResourceResponse(0, None, kind, name)


def failed(request: AlterConfigsRequest, version: int, code: Code) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        0, [AlterConfigsResourceResponse(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API = Declaration(33, handle, failed)
