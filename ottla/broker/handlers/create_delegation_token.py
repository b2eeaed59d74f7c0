"""CreateDelegationToken, versions 1 to 3 (KIP-48): refused, because clients of a plain listener are not authenticated.

Kafka serves delegation tokens only on listeners that authenticate their clients, by SASL or by TLS with a client certificate, and
checks this before it checks whether tokens are enabled. All versions behave alike, except that the response of 3 (KIP-373) has the
owner and the requester.
"""

from __future__ import annotations

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.security.principal import ANONYMOUS


async def handle(ports: object, request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    return failed(request, context.version, Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def failed(request: CreateDelegationTokenRequest, version: int, code: Code) -> CreateDelegationTokenResponse:
    kind, name = ANONYMOUS.type, ANONYMOUS.name
    is_for_another = version >= 3 and bool(request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=(request.owner_principal_type or "") if is_for_another else kind,
        principal_name=(request.owner_principal_name or "") if is_for_another else name,
        token_requester_principal_type=kind,
        token_requester_principal_name=name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )


API = Declaration(key=38, handle=handle, failed=failed, authorisation=authorisations("CREATE_TOKENS USER"))
