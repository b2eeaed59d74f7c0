"""Envelope, version 0 (KIP-590): a client's request that a broker forwards, because the controller must handle it.

Kafka authorises CLUSTER_ACTION for the broker that sends the envelope, and the enclosed principal for the client's request. The
envelope's response contains the response for the client. The error is INVALID_REQUEST if the client's request cannot be decoded or
forwarded, UNSUPPORTED_VERSION if its version is unsupported (EnvelopeUtils).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Protocol

from ottla.broker.apis.api import RequestContext, RequestRefused
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.registry import FORWARDED
from ottla.broker.controller.services import ControllerDeclaration
from ottla.broker.network.dispatch import Dispatcher, UnsupportedApiVersions
from ottla.broker.peers.principals import principal_of
from ottla.protocol.codec import DECODE_FAILURES
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.primitives import TooManyElements

SIZE_BYTES = 4


class Ports(Protocol):
    def dispatcher(self, client_host: str, context: RequestContext) -> Dispatcher: ...


async def handle(ports: Ports, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    try:
        client_host = str(ip_address(bytes(request.client_host_address)))
    except ValueError:
        raise KafkaError(Code.INVALID_REQUEST) from None
    try:
        principal = principal_of(bytes(request.request_principal or b""))
    except DecodeError:
        raise KafkaError(Code.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    dispatcher, frame = ports.dispatcher(client_host, context), memoryview(request.request_data)
    try:
        route, correlation_id = dispatcher.route(frame)
    except UnsupportedApiVersions:
        raise KafkaError(Code.UNSUPPORTED_VERSION) from None
    except (RequestRefused, *DECODE_FAILURES):
        raise KafkaError(Code.INVALID_REQUEST) from None
    # The dispatcher was made for this request alone, so its principal may be replaced by the client's.
    route.context.principal = principal
    if route.api.key not in FORWARDED:
        raise KafkaError(Code.INVALID_REQUEST)
    try:
        inner: Any = dispatcher.decode(route, frame)
    except TooManyElements:
        inner, _ = await dispatcher.decode_in_steps(route, frame)
    except DECODE_FAILURES:
        raise KafkaError(Code.INVALID_REQUEST) from None
    try:
        response = await dispatcher.respond(route, inner, len(frame))
    except RequestRefused:
        # The broker that sent the envelope closes its client's connection on INVALID_REQUEST.
        raise KafkaError(Code.INVALID_REQUEST) from None
    parts = dispatcher.encode(route, correlation_id, response)
    if parts is None:
        raise KafkaError(Code.UNKNOWN_SERVER_ERROR)
    return EnvelopeResponse(response_data=b"".join(parts)[SIZE_BYTES:], error_code=0)


def failed(request: EnvelopeRequest, version: int, code: Code) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=None, error_code=code)


API = ControllerDeclaration(
    key=58, handle=handle, failed=failed, authorisation=authorisations("CLUSTER_ACTION CLUSTER"), has_secrets=True
)
