"""DescribeCluster, versions 0 to 2 (KIP-700): describes the cluster with its id, controller and brokers.

- 1 (KIP-919): the client requests the endpoints of brokers or of controllers; this handler lists brokers.
- 2 (KIP-1073): fenced brokers are included on request.

Every client may send this request, but only with DESCRIBE on the cluster does it get the cluster's authorised operations.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.brokers import known_brokers
from ottla.broker.handlers.support.common import NOT_ASKED
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType

BROKERS = 1
CONTROLLERS = 2


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig
    cluster_id: str

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return DescribeClusterResponse(
            throttle_time_ms=0, error_code=Code.MISMATCHED_ENDPOINT_TYPE, error_message=message, endpoint_type=BROKERS
        )
    if request.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {request.endpoint_type}"
        return DescribeClusterResponse(
            throttle_time_ms=0, error_code=Code.UNSUPPORTED_ENDPOINT_TYPE, error_message=message, endpoint_type=BROKERS
        )
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        may_describe = ports.authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        operations = ports.authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME) if may_describe else 0
    brokers = [
        DescribeClusterBroker(broker_id=b.node_id, host=b.host, port=b.port, rack=b.rack, is_fenced=b.is_fenced)
        for b in known_brokers(ports, context.listener, fenced=request.include_fenced_brokers)
    ]
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=ports.cluster_id,
        controller_id=ports.live_config.settings.node_id,
        brokers=brokers,
        cluster_authorized_operations=operations,
    )


def failed(request: DescribeClusterRequest, version: int, code: Code) -> DescribeClusterResponse:
    return DescribeClusterResponse(throttle_time_ms=0, error_code=code)


API = Declaration(
    key=60,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE CLUSTER", by_handler=True),
)
