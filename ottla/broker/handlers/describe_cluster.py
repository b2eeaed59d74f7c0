"""DescribeCluster, versions 0 to 2 (KIP-700): id, controller and brokers of the cluster.

- 1 (KIP-919): the client says whether it means brokers or controllers; only brokers are here.
- 2 (KIP-1073): fenced brokers as well, of which there are none.

Kafka answers whoever asks; DESCRIBE on the cluster decides whether its authorised operations are told.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.authorisation import authorisations
from ottla.broker.config.settings import Settings
from ottla.broker.handlers.common import CLUSTER_OPERATIONS, NOT_ASKED
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


class Ports(Protocol):
    settings: Settings
    cluster_id: str

    def advertised(self, listener: str) -> tuple[str, int]: ...


def handle(ports: Ports, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DescribeClusterResponse(0, Code.MISMATCHED_ENDPOINT_TYPE, message, BROKERS)
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(0, Code.UNSUPPORTED_ENDPOINT_TYPE, message, BROKERS)
    host, port = ports.advertised(context.listener)
    operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
    node = DescribeClusterBroker(ports.settings.node_id, host, port, ports.settings.broker_rack, False)
    return DescribeClusterResponse(0, 0, None, BROKERS, ports.cluster_id, ports.settings.node_id, [node], operations)


def failed(request: DescribeClusterRequest, version: int, code: Code) -> DescribeClusterResponse:
    return DescribeClusterResponse(0, code)


API = Declaration(
    key=60,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE CLUSTER"),
)
