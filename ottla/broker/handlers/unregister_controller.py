"""UnregisterController, version 0 (new in Kafka 4.4): refused, because this node is the only controller and stays registered."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.live_config import LiveConfig
from ottla.protocol.errors import Code
from ottla.protocol.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse


class Ports(Protocol):
    live_config: LiveConfig


async def handle(ports: Ports, request: UnregisterControllerRequest, context: RequestContext) -> UnregisterControllerResponse:
    if request.controller_id == ports.live_config.settings.node_id:
        code, reason = Code.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
    else:
        code, reason = Code.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {request.controller_id} is not currently registered."
    return UnregisterControllerResponse(throttle_time_ms=0, error_code=code, error_message=reason)


def failed(request: UnregisterControllerRequest, version: int, code: Code) -> UnregisterControllerResponse:
    return UnregisterControllerResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(key=94, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
