"""ListConfigResources, versions 0 and 1 (KIP-1142): which resources can have configs."""

from __future__ import annotations

from broker.api import Context, Declaration
from coordinator.cluster import BROKER_RESOURCE, TOPIC_RESOURCE
from protocol.errors import Code
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
_SUPPORTED = {TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER, CLIENT_METRICS, GROUP}


def handle(context: Context, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    broker = context.broker
    # Version 0 was about client metrics alone, of which there are none.
    wanted = {CLIENT_METRICS} if context.version == 0 else set(request.resource_types) or _SUPPORTED
    if not wanted <= _SUPPORTED:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)
    found = []
    if TOPIC_RESOURCE in wanted:
        found += [ConfigResource(name, TOPIC_RESOURCE) for name in broker.cluster.state.topics]
    for kind in (BROKER_RESOURCE, BROKER_LOGGER):
        if kind in wanted:
            found.append(ConfigResource(str(broker.settings.node_id), kind))
    if GROUP in wanted:
        found += [ConfigResource(g, GROUP) for shard in broker.groups.shards() for g in sorted(shard.group_ids())]
    return ListConfigResourcesResponse(0, 0, found)


def failed(request: ListConfigResourcesRequest, version: int, code: Code) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(0, code)


API = Declaration(74, handle, failed)
