"""AlterConfigs, versions 0 to 2 (KIP-133): replaces all configs of a resource by those that are given."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import at_once_or_in_steps
from broker.handlers.config_changes import ITEMS_PER_RESOURCE, apply, check_keys, check_named_once, check_resource, repeated
from protocol.errors import Code, KafkaError
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from storage.steps import Steps


def handle(context: Context, request: AlterConfigsRequest) -> AlterConfigsResponse | Steps[AlterConfigsResponse]:
    return at_once_or_in_steps(ITEMS_PER_RESOURCE * len(request.resources), _alter_all(context, request))


def _alter_all(context: Context, request: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    twice = repeated(request.resources)
    responses = []
    for resource in request.resources:
        responses.append(_alter(context, resource, twice, request.validate_only))
        yield None
    return AlterConfigsResponse(0, responses)


def _alter(
    context: Context, asked: AlterConfigsResource, twice: set[tuple[int, str]], validate_only: bool
) -> AlterConfigsResourceResponse:
    broker = context.broker
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_named_once(asked, twice)
        check_keys(asked.configs)
        check_resource(broker, kind, name)
        changes: dict[str, str | None] = dict.fromkeys(broker.cluster.state.config_of(kind, name))
        changes |= {config.name: config.value for config in asked.configs}
        apply(broker, kind, name, changes, validate_only=validate_only)
    except KafkaError as error:
        return AlterConfigsResourceResponse(error.code, error.message, kind, name)
    return AlterConfigsResourceResponse(0, None, kind, name)


def failed(request: AlterConfigsRequest, version: int, code: Code) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        0, [AlterConfigsResourceResponse(code, None, r.resource_type, r.resource_name) for r in request.resources]
    )


API = Declaration(33, handle, failed)
