"""DescribeUserScramCredentials, version 0 (KIP-554): lists mechanisms and iterations of users' credentials, never keys or salts."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.handlers.support.each import counted_by_name
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.protocol.steps import Pace, next_turn


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(
    ports: Ports, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    if request.users:
        named = await counted_by_name(request.users)
        users = [(user.name, times) for user, times in named]
    else:
        users = [(name, 1) for name in ports.cluster.state.credentials.by_user]
    results, pace = [], Pace(double_first=True)
    for name, times in users:
        results.append(_describe(ports, name, times))
        if pace.spend(2):
            await next_turn()
    return DescribeUserScramCredentialsResponse(throttle_time_ms=0, error_code=0, error_message="", results=results)


def _describe(ports: Ports, user: str, times: int) -> DescribeUserScramCredentialsResult:
    try:
        if times > 1:
            reason = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            raise KafkaError(Code.DUPLICATE_RESOURCE, reason)
        credentials = ports.cluster.state.credentials.by_user.get(user)
        if credentials is None:
            reason = f"Attempt to describe a user credential that does not exist: {user}"
            raise KafkaError(Code.RESOURCE_NOT_FOUND, reason)
    except KafkaError as error:
        return DescribeUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
    infos = [CredentialInfo(mechanism=how, iterations=c.iterations) for how, c in sorted(credentials.items())]
    return DescribeUserScramCredentialsResult(user=user, error_code=0, error_message=None, credential_infos=infos)


def failed(request: DescribeUserScramCredentialsRequest, version: int, code: Code) -> DescribeUserScramCredentialsResponse:
    # As in Kafka, the results of a refused request do not name the users.
    users = [DescribeUserScramCredentialsResult(user="", error_code=code, error_message=None) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(throttle_time_ms=0, error_code=code, error_message=None, results=users)


API = Declaration(
    key=50,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE CLUSTER"),
    is_bulky=True,
)
