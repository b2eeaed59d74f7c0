"""ExpireDelegationToken, versions 1 and 2 (KIP-48): refused, because delegation tokens are disabled.

All versions behave alike.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import UNRESTRICTED
from ottla.broker.handlers.support.delegation_tokens import refusal, time_ms
from ottla.protocol.errors import Code
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


async def handle(ports: object, request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    return failed(request, context.version, refusal(context))


def failed(request: ExpireDelegationTokenRequest, version: int, code: Code) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=time_ms(code), throttle_time_ms=0)


API = Declaration(key=40, handle=handle, failed=failed, authorisation=UNRESTRICTED)
