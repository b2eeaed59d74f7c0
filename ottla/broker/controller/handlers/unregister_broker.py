"""UnregisterBroker, version 0 (KIP-500): removes a broker's registration, and removes the broker from in-sync sets."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    try:
        ports.controller.unregister_broker(request.broker_id)
    except KafkaError as error:
        return UnregisterBrokerResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=0, error_message=None)


def failed(request: UnregisterBrokerRequest, version: int, code: Code) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = ControllerDeclaration(key=64, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
