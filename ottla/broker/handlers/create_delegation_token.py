"""CreateDelegationToken, versions 1 to 3 (KIP-48): creates a credential for other processes of the client.

From version 3 on (KIP-373) a client may create a token for another owner, if it has CREATE_TOKENS for that user. Error responses,
too, name the owner and the requester.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support import token_requests
from ottla.broker.handlers.support.token_requests import NO_TIME_MS, refusal
from ottla.coordinator.metadata.delegation_tokens import MAX_RENEWERS
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.security.principal import ANONYMOUS, USER, KafkaPrincipal


class Ports(token_requests.Ports, Protocol):
    authorizer: RequestAuthorizer


async def handle(ports: Ports, request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    return refused(ports, request, context) or await execute(ports, request, context)


def refused(ports: Ports, request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse | None:
    """The broker's error response to a request; None if the broker may handle or forward the request."""
    code = refusal(context)
    if code == Code.NONE:
        code = _check(ports, request, context)
    return None if code == Code.NONE else _failed(request, context.principal, code, time_ms=NO_TIME_MS)


def _check(ports: Ports, request: CreateDelegationTokenRequest, context: RequestContext) -> Code:
    owner = _owner(request, context.principal)
    may_create = owner == context.principal or ports.authorizer.allows(
        context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
    )
    if not may_create:
        return Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    is_of_users = all(renewer.principal_type == USER for renewer in request.renewers)
    return Code.NONE if is_of_users else Code.INVALID_PRINCIPAL_TYPE


async def execute(ports: Ports, request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    """Handle a request at the controller."""
    code = _check(ports, request, context)
    if code != Code.NONE:
        return _failed(request, context.principal, code, time_ms=NO_TIME_MS)
    requester = KafkaPrincipal(context.principal.type, context.principal.name)
    renewers = [KafkaPrincipal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers[: MAX_RENEWERS + 1]]
    try:
        token = ports.cluster.create_token(
            _owner(request, requester), requester, renewers, request.max_lifetime_ms, ports.clock.now_ms()
        )
    except KafkaError as error:
        return _failed(request, requester, error.code, time_ms=0)
    return CreateDelegationTokenResponse(
        error_code=Code.NONE,
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=ports.cluster.state.tokens.hmac_of(token.token_id),
        throttle_time_ms=0,
    )


def _owner(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def _failed(
    request: CreateDelegationTokenRequest, requester: KafkaPrincipal, code: Code, *, time_ms: int
) -> CreateDelegationTokenResponse:
    """Build an error response. ``time_ms`` is the value of its time fields: 0 if, in Kafka, the controller makes the response."""
    owner = _owner(request, requester)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )


def failed(request: CreateDelegationTokenRequest, version: int, code: Code) -> CreateDelegationTokenResponse:
    return _failed(request, ANONYMOUS, code, time_ms=NO_TIME_MS)


API = Declaration(
    key=38,
    handle=handle,
    failed=failed,
    authorisation=authorisations("CREATE_TOKENS USER", by_handler=True),
    has_secrets=True,
    refused=refused,
)
