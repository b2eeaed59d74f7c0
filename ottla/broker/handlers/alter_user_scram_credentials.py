"""AlterUserScramCredentials, version 0 (KIP-554): sets and removes the credentials of users of SCRAM."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.steps import Pace, next_turn

CHANGE_WORK = 100
"""The cost of a change, in units of `protocol.steps.Pace`."""

Change = ScramCredentialDeletion | ScramCredentialUpsertion


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(
    ports: Ports, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    # Kafka alters each user at most once in a request, even for different mechanisms; a repeated user is not altered at all.
    times: Counter[str] = await made(lambda: Counter(change.name for change in changes), len(changes))
    results: dict[str, AlterUserScramCredentialsResult] = {}
    pace = Pace(double_first=True)
    for change in changes:
        if change.name not in results:
            results[change.name] = _altered(ports, change, times[change.name])
        if pace.spend(CHANGE_WORK):
            await next_turn()
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=list(results.values()))


def _altered(ports: Ports, change: Change, times: int) -> AlterUserScramCredentialsResult:
    try:
        if times > 1:
            raise KafkaError(Code.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        if isinstance(change, ScramCredentialDeletion):
            ports.cluster.remove_credential(change.name, change.mechanism)
        else:
            ports.cluster.set_credential(change.name, change.mechanism, change.salt, change.salted_password, change.iterations)
    except KafkaError as error:
        return AlterUserScramCredentialsResult(user=change.name, error_code=error.code, error_message=error.message)
    return AlterUserScramCredentialsResult(user=change.name, error_code=0, error_message=None)


def failed(request: AlterUserScramCredentialsRequest, version: int, code: Code) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    users = dict.fromkeys(change.name for change in changes)
    results = [AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users]
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


API = Declaration(key=51, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
