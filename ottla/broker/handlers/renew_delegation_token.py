"""RenewDelegationToken, versions 1 and 2 (KIP-48): extends the lifetime of a token of which the client is the owner or a
renewer."""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.handlers.support.token_requests import NO_TIME_MS, Ports, refusal
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def handle(ports: Ports, request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    return refused(ports, request, context) or await execute(ports, request, context)


def refused(ports: Ports, request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse | None:
    """The broker's error response to a request; None if the broker may handle or forward the request."""
    code = refusal(context)
    return None if code == Code.NONE else failed(request, context.version, code)


async def execute(ports: Ports, request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    """Handle a request at the controller."""
    hmac, now_ms = bytes(request.hmac), ports.clock.now_ms()
    try:
        expires_ms = ports.cluster.renew_token(hmac, context.principal, request.renew_period_ms, now_ms)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=0, throttle_time_ms=0)
    return RenewDelegationTokenResponse(error_code=Code.NONE, expiry_timestamp_ms=expires_ms, throttle_time_ms=0)


def failed(request: RenewDelegationTokenRequest, version: int, code: Code) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME_MS, throttle_time_ms=0)


API = Declaration(key=39, handle=handle, failed=failed, authorisation=UNRESTRICTED, refused=refused, has_secrets=True)
