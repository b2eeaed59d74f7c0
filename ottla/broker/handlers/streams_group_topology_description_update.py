"""StreamsGroupTopologyDescriptionUpdate, version 0 (KIP-1331): refused, as by a Kafka broker that stores no descriptions.

Only a plugin stores descriptions. A broker without the plugin never requests a member's description.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.protocol.errors import Code
from ottla.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

_NO_STORE = "The broker has no streams group topology description plugin configured."


class Ports(Protocol):
    """Empty, because the handler uses no services of the broker."""


async def handle(
    ports: Ports, request: StreamsGroupTopologyDescriptionUpdateRequest, context: RequestContext
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=Code.UNSUPPORTED_VERSION, error_message=_NO_STORE)


def failed(
    request: StreamsGroupTopologyDescriptionUpdateRequest, version: int, code: Code
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=code)


API = Declaration(key=93, handle=handle, failed=failed, authorisation=authorisations("READ GROUP group_id"))
