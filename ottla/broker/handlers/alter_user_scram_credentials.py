"""AlterUserScramCredentials, version 0 (KIP-554): sets and removes SCRAM credentials of users."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
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
"""Estimated time to change a credential, in units of 2 us."""

Change = ScramCredentialDeletion | ScramCredentialUpsertion


class Ports(Protocol):
    cluster: ClusterCommands


async def handle(
    ports: Ports, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    results: dict[str, AlterUserScramCredentialsResult] = {}
    valid: dict[str, Change] = {}
    pace = Pace(double_first=True)
    for change in changes:
        if change.name not in results:
            error = _check(ports, change, is_again=valid.pop(change.name, None) is not None)
            if error is None:
                valid[change.name] = change
            else:
                results[change.name] = _result(change.name, error)
        if pace.spend(CHANGE_WORK):
            await next_turn()
    for name, change in valid.items():
        results[name] = _altered(ports, change)
        if pace.spend(CHANGE_WORK):
            await next_turn()
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=list(results.values()))


def _check(ports: Ports, change: Change, *, is_again: bool) -> KafkaError | None:
    """Return the error that a change would cause, without making the change.

    ``is_again``: the request has another valid change of the user. As in Kafka the user then stays unchanged (ScramControlManager).
    """
    if is_again:
        return KafkaError(Code.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    credentials = ports.cluster.state.credentials
    try:
        if isinstance(change, ScramCredentialDeletion):
            credentials.remove(change.name, change.mechanism)
        else:
            credentials.set(change.name, change.mechanism, change.salt, change.salted_password, change.iterations)
    except KafkaError as error:
        return error
    return None


def _altered(ports: Ports, change: Change) -> AlterUserScramCredentialsResult:
    try:
        if isinstance(change, ScramCredentialDeletion):
            ports.cluster.remove_credential(change.name, change.mechanism)
        else:
            ports.cluster.set_credential(change.name, change.mechanism, change.salt, change.salted_password, change.iterations)
    except KafkaError as error:
        return _result(change.name, error)
    return AlterUserScramCredentialsResult(user=change.name, error_code=0, error_message=None)


def _result(user: str, error: KafkaError) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)


def failed(request: AlterUserScramCredentialsRequest, version: int, code: Code) -> AlterUserScramCredentialsResponse:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    users = dict.fromkeys(change.name for change in changes)
    results = [AlterUserScramCredentialsResult(user=user, error_code=code, error_message=None) for user in users]
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results)


API = Declaration(key=51, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"), has_secrets=True)
