"""DescribeDelegationToken, versions 1 to 3 (KIP-48): lists tokens with their HMACs.

A client sees the tokens of which it is owner, requester or renewer, tokens on which it has DESCRIBE, and tokens of users for whom
it has DESCRIBE_TOKENS (KIP-373; DelegationTokenManager.filterToken). Since version 3 the response has the requester.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.handlers.support import token_requests
from ottla.broker.handlers.support.each import each, made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.metadata.delegation_tokens import StoredToken
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.security.principal import KafkaPrincipal

TOKEN_WORK = 10
"""Estimated time to describe a token, in units of 2 us."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands


async def handle(ports: Ports, request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    code, tokens = token_requests.refusal(context), ports.cluster.state.tokens
    if code == Code.NONE and not tokens.is_enabled:
        code = Code.DELEGATION_TOKEN_AUTH_DISABLED
    if code != Code.NONE:
        return failed(request, context.version, code)
    asked = request.owners
    owners = None
    if asked is not None:
        owners = await made(lambda: {KafkaPrincipal(owner.principal_type, owner.principal_name) for owner in asked}, len(asked))

    def one(token: StoredToken) -> DescribedDelegationToken | None:
        return _described(token, tokens.hmac_of(token.token_id)) if _is_visible(ports, token, owners, context) else None

    return await each(
        [] if owners == set() else list(tokens.by_id.values()),
        one,
        lambda described: DescribeDelegationTokenResponse(
            error_code=Code.NONE, tokens=[token for token in described if token is not None], throttle_time_ms=0
        ),
        work=TOKEN_WORK,
    )


def _is_visible(ports: Ports, token: StoredToken, owners: set[KafkaPrincipal] | None, context: RequestContext) -> bool:
    """Whether a requested owner is the token's owner, requester or renewer, and the client may see the token."""
    if owners is not None and owners.isdisjoint(token.visible_to):
        return False
    if context.principal in token.visible_to:
        return True
    authorizer = ports.authorizer
    if authorizer.allows(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, logs_denied=False):
        return True
    is_named = owners is not None and token.owner in owners
    return authorizer.allows(context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), logs_denied=is_named)


def _described(token: StoredToken, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name) for renewer in token.renewers
        ],
    )


def failed(request: DescribeDelegationTokenRequest, version: int, code: Code) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code, throttle_time_ms=0)


API = Declaration(
    key=41,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE DELEGATION_TOKEN, DESCRIBE_TOKENS USER", by_handler=True),
    has_secrets=True,
)
