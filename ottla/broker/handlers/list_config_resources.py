"""ListConfigResources, versions 0 and 1 (KIP-1142): lists the resources that can have configs.

- 0 (KIP-1000): lists only client metrics subscriptions.
- 1: lists resources of the requested types, or of all types.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.cluster import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ottla.protocol.errors import Code
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.protocol.steps import Pace, next_turn

_SUPPORTED = {TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE}


class Ports(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig


async def handle(ports: Ports, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    wanted = {CLIENT_METRICS_RESOURCE} if context.version == 0 else set(request.resource_types) or _SUPPORTED
    if not wanted <= _SUPPORTED:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)
    resources: list[ConfigResource] = []
    pace = Pace(double_first=True)
    for name in list(ports.cluster.state.topics) if TOPIC_RESOURCE in wanted else ():
        resources.append(ConfigResource(resource_name=name, resource_type=TOPIC_RESOURCE))
        if pace.spend(1):
            await next_turn()
    # Groups and client metrics are listed only if they have configs of their own.
    for kind, name in list(ports.cluster.state.configs):
        if kind in wanted and kind in (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE):
            resources.append(ConfigResource(resource_name=name, resource_type=kind))
        if pace.spend(1):
            await next_turn()
    for kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        if kind in wanted:
            resources.append(ConfigResource(resource_name=str(ports.live_config.settings.node_id), resource_type=kind))
    return ListConfigResourcesResponse(throttle_time_ms=0, error_code=0, config_resources=resources)


def failed(request: ListConfigResourcesRequest, version: int, code: Code) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(throttle_time_ms=0, error_code=code)


API = Declaration(
    key=74,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE_CONFIGS CLUSTER"),
)
