"""Creates delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

from ottla.client.cluster import BrokerConnections, BrokerNode
from ottla.client.errors import KafkaAnswered, check
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.security.principal import KafkaPrincipal

DEFAULT_LIFETIME_MS = -1
"""Requests the longest lifetime that the brokers allow (``delegation.token.max.lifetime.ms``)."""


def create_token(brokers: BrokerConnections, owner: KafkaPrincipal) -> CreateDelegationTokenResponse:
    """Create a token for ``owner``, and wait until all brokers know the token, because the controller responds before other
    brokers have read the record of the token. Raises `KafkaAnswered`, for example if the brokers have no
    ``delegation.token.secret.key``."""
    what = f"creating a delegation token of {owner}"
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner.type, owner_principal_name=owner.name, max_lifetime_ms=DEFAULT_LIFETIME_MS
    )
    created: CreateDelegationTokenResponse = brokers.ask_until_final(
        brokers.anyone, request, lambda answer: answer.error_code, what
    )
    tokens_of_owner = DescribeDelegationTokenRequest(
        owners=[DescribeDelegationTokenOwner(principal_type=owner.type, principal_name=owner.name)]
    )
    for node in brokers.nodes():

        def attempt(node: BrokerNode = node) -> None:
            answer = brokers.ask(brokers.node(node), tokens_of_owner)
            check(what, answer.error_code)
            if not any(token.token_id == created.token_id for token in answer.tokens):
                raise KafkaAnswered(what, Code.DELEGATION_TOKEN_NOT_FOUND)

        brokers.until_final(what, attempt, also=(Code.DELEGATION_TOKEN_NOT_FOUND,))
    return created
