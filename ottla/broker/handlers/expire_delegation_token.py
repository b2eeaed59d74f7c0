"""ExpireDelegationToken, versions 1 and 2 (KIP-48): ends a token of which the client is the owner or a renewer."""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.handlers.support.token_requests import NO_TIME_MS, Ports, refusal
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(ports: Ports, request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    return refused(ports, request, context) or await execute(ports, request, context)


def refused(ports: Ports, request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse | None:
    """The broker's error response to a request; None if the broker may handle or forward the request."""
    code = refusal(context)
    return None if code == Code.NONE else failed(request, context.version, code)


async def execute(ports: Ports, request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    """Handle a request at the controller."""
    hmac, now_ms = bytes(request.hmac), ports.clock.now_ms()
    try:
        expires_ms = ports.cluster.expire_token(hmac, context.principal, request.expiry_time_period_ms, now_ms)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=0, throttle_time_ms=0)
    return ExpireDelegationTokenResponse(error_code=Code.NONE, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)


def failed(request: ExpireDelegationTokenRequest, version: int, code: Code) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME_MS, throttle_time_ms=0)


API = Declaration(key=40, handle=handle, failed=failed, authorisation=UNRESTRICTED, refused=refused, has_secrets=True)
