"""DescribeDelegationToken, versions 1 to 3 (KIP-48): refused, because delegation tokens are disabled.

All versions behave alike.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.handlers.support.delegation_tokens import refusal
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse


async def handle(
    ports: object, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return failed(request, context.version, refusal(context))


def failed(request: DescribeDelegationTokenRequest, version: int, code: Code) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code, throttle_time_ms=0)


API = Declaration(
    key=41,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE DELEGATION_TOKEN, DESCRIBE_TOKENS USER"),
    checks_itself=True,
)
