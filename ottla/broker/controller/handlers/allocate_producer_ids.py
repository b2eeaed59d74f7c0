"""AllocateProducerIds, version 0 (KIP-730): allocates a block of unused producer ids to a broker."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.services import ControllerDeclaration
from ottla.protocol.errors import Code
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class Ports(Protocol):
    controller: ControllerMetadata


async def handle(ports: Ports, request: AllocateProducerIdsRequest, context: RequestContext) -> AllocateProducerIdsResponse:
    block = ports.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return AllocateProducerIdsResponse(throttle_time_ms=0, error_code=0, producer_id_start=block.start, producer_id_len=len(block))


def failed(request: AllocateProducerIdsRequest, version: int, code: Code) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(throttle_time_ms=0, error_code=code, producer_id_start=0, producer_id_len=0)


API = ControllerDeclaration(key=67, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"))
