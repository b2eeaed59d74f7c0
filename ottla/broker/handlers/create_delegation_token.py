"""CreateDelegationToken, versions 1 to 3 (KIP-48): refused, because delegation tokens are disabled.

All versions behave alike, except that in 3 (KIP-373) the token may be for another user, which needs CREATE_TOKENS on that user, and
that its response has the owner and the requester.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support.delegation_tokens import refusal, time_ms
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.security.principal import ANONYMOUS, KafkaPrincipal

OWNER_FROM = 3
"""The first version in which a client may request a token for another user."""


class Ports(Protocol):
    authorizer: RequestAuthorizer


async def handle(ports: Ports, request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    requester, code = context.principal, refusal(context)
    owner = requester
    if context.version >= OWNER_FROM and request.owner_principal_name:
        owner = KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)
    may_request = code is not Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    is_for_another = may_request and owner != requester
    if is_for_another and not ports.authorizer.allows(context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        code = Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return _refused(owner, requester, code)


def _refused(owner: KafkaPrincipal, requester: KafkaPrincipal, code: Code) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=time_ms(code),
        expiry_timestamp_ms=time_ms(code),
        max_timestamp_ms=time_ms(code),
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )


def failed(request: CreateDelegationTokenRequest, version: int, code: Code) -> CreateDelegationTokenResponse:
    return _refused(ANONYMOUS, ANONYMOUS, code)


API = Declaration(key=38, handle=handle, failed=failed, authorisation=authorisations("CREATE_TOKENS USER"), checks_itself=True)
