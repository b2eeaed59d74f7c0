"""BrokerHeartbeat, versions 0 to 2 (KIP-631): extends a broker's session. The response says whether the broker is
fenced and may shut down.

- 1 (KIP-858): the request has the log directories that have failed.
- 2 (KIP-1066): the request has the log directories that must get no new partitions.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.coordinator.controller.heartbeats import BrokerHeartbeat
from ottla.protocol.errors import Code
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: BrokerHeartbeatRequest, context: RequestContext) -> BrokerHeartbeatResponse:
    cordoned = request.cordoned_log_dirs
    reply = ports.controller.heartbeat(
        BrokerHeartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            current_metadata_offset=request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            offline_directories=tuple(request.offline_log_dirs),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )
    )
    return BrokerHeartbeatResponse(
        throttle_time_ms=0,
        error_code=0,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )


def failed(request: BrokerHeartbeatRequest, version: int, code: Code) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(throttle_time_ms=0, error_code=code)


API = ControllerDeclaration(key=63, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"))
