"""AlterConfigs, versions 0 to 2 (KIP-133): replaces all configs of a resource with the configs in the request."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.config_changes import apply, change_work, check_keys, check_named_once, check_resource, repeated
from ottla.broker.handlers.support.config_permissions import check_configs
from ottla.broker.handlers.support.each import each
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.security.acl.codes import AclOperation


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig


async def handle(ports: Ports, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    twice = await repeated(request.resources)
    return await each(
        request.resources,
        lambda resource: _alter(ports, context, resource, twice, request.validate_only),
        lambda results: AlterConfigsResponse(throttle_time_ms=0, responses=list(results)),
        work=change_work,
    )


def _alter(
    ports: Ports, context: RequestContext, asked: AlterConfigsResource, twice: set[tuple[int, str]], validate_only: bool
) -> AlterConfigsResourceResponse:
    kind, name = asked.resource_type, asked.resource_name
    try:
        check_named_once(asked, twice)
        check_keys(asked.configs)
        check_configs(ports.authorizer, context, AclOperation.ALTER_CONFIGS, kind, name)
        check_resource(ports, kind, name)
        changes: dict[str, str | None] = dict.fromkeys(ports.cluster.state.config_of(kind, name))
        changes |= {config.name: config.value for config in asked.configs}
        apply(ports, kind, name, changes, validate_only=validate_only)
    except KafkaError as error:
        return AlterConfigsResourceResponse(
            error_code=error.code, error_message=error.message, resource_type=kind, resource_name=name
        )
    return AlterConfigsResourceResponse(error_code=0, error_message=None, resource_type=kind, resource_name=name)


def failed(request: AlterConfigsRequest, version: int, code: Code) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=None, resource_type=r.resource_type, resource_name=r.resource_name
            )
            for r in request.resources
        ],
    )


API = Declaration(
    key=33,
    handle=handle,
    failed=failed,
    authorisation=authorisations("ALTER_CONFIGS TOPIC, ALTER_CONFIGS CLUSTER", by_handler=True),
    has_secrets=True,
)
