"""The authorizer of a broker with ``authorizer.class.name``: the ACLs of the cluster's metadata decide (Kafka's AuthHelper).

Imported only if this setting is set; otherwise `authorizer_port.ALLOW_ALL` is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from ottla.broker.apis.api import Declared
from ottla.broker.apis.authorisation import Authorise, check, check_cluster
from ottla.broker.apis.authorizer_port import Client, Denial, RequestAuthorizer
from ottla.broker.apis.denials import TEXT_CHARACTERS, Denials
from ottla.broker.config.settings import Settings
from ottla.broker.loop.counters import RatePerMinute
from ottla.broker.loop.env import Clock
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.protocol.errors import KafkaError
from ottla.protocol.steps import in_thread
from ottla.security.acl.acl_index import AclIndex
from ottla.security.acl.codes import SUPPORTED_OPERATIONS, AclOperation, ResourceType, operation_bits
from ottla.security.acl.hosts import host_address
from ottla.security.acl.principals import parse_super_users
from ottla.security.acl.standard_authorizer import Decision, StandardAuthorizer
from ottla.security.principal import INTERNAL

WITH_PLAIN_MESSAGE = frozenset({49, 55, 80, 81, 83, 84, 85, 86, 87})
"""Keys of APIs that need a permission on the cluster, and whose error response has the error code's default message.

The other APIs that need a permission on the cluster have the message of AuthHelper.authorizeClusterOperation.
"""
WITHOUT_MESSAGE = frozenset({48, 50, 68, 76, 78, 79, 88, 93})
"""Keys of the APIs whose responses leave the field for the message empty if a permission is missing."""

log = structlog.get_logger("authorizer")


class AclAuthorizer:
    """Decides by ACLs whether to allow an operation.

    Logs each kind of denial once, and later how often it was repeated (``kafka.authorizer.logger``).
    """

    is_enabled = True

    def __init__(self, authorizer: StandardAuthorizer, clock: Clock) -> None:
        self._authorizer = authorizer
        self._clock = clock
        self._logged = RepeatedErrors(clock, log)
        self._denials = Denials()
        self._rates = {True: RatePerMinute(), False: RatePerMinute()}
        """The rates per minute of allowed actions (True) and of denied actions (False)."""

    def allows(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
    ) -> bool:
        decision = self._authorizer.decide(client.principal, host_address(client.client_host), operation, resource_type, name)
        self._rates[decision.is_allowed].add(self._clock.steady_ms())
        if logs_denied and not decision.is_allowed:
            self._denials.note(self._clock.now_ms(), client, operation, resource_type, name, decision)
            self._log_denied(client, operation, resource_type, name, decision)
        return decision.is_allowed

    def _log_denied(
        self, client: Client, operation: AclOperation, resource_type: ResourceType, name: str, decision: Decision
    ) -> None:
        principal = str(client.principal)
        self._logged.failed(
            "authorization_denied",
            decision.rule_text,
            key=(principal, operation, resource_type, name[:TEXT_CHARACTERS]),
            level="info",
            principal=principal,
            client_host=client.client_host,
            operation=operation.name,
            resource_type=resource_type.name,
            resource=name,
        )

    def rates_per_minute(self) -> tuple[float, float]:
        now_ms = self._clock.steady_ms()
        return self._rates[True].measured(now_ms), self._rates[False].measured(now_ms)

    def denials(self) -> list[Denial]:
        return self._denials.newest_first()

    def allows_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        host = host_address(client.client_host)
        return self._authorizer.authorize_by_resource_type(client.principal, host, operation, resource_type)

    def operations(self, client: Client, resource_type: ResourceType, name: str) -> int:
        return operation_bits(
            operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.allows(client, operation, resource_type, name, logs_denied=False)
        )


def acl_authorizer(settings: Settings, index: AclIndex, clock: Clock) -> AclAuthorizer:
    """Build the authorizer that the settings configure. ``index`` has the ACLs of the cluster's metadata."""
    super_users = parse_super_users(settings.super_users) | {INTERNAL}
    allows = settings.allow_everyone_if_no_acl_found
    return AclAuthorizer(StandardAuthorizer(index, super_users, allows_without_acl=allows), clock)


def enforcing(authorizer: RequestAuthorizer) -> Callable[[Declared[Any]], Declared[Any]]:
    """Return a function that changes an API's declaration so that requests without a needed permission are refused before the
    handler.

    The API's ``authorise`` checks the permissions, or otherwise each permission with a field is checked. Without both, an API's
    only permission is checked if it is on the cluster; otherwise CLUSTER_ACTION is required, which brokers and super users have.
    """

    def change(api: Declared[Any]) -> Declared[Any]:
        authorise = api.authorise or _field_checks(api)
        if authorise is None:
            if all(permission.is_checked_by_handler for permission in api.authorisation):
                return api
            authorise = _cluster_check(api)

        async def checked(services: Any, request: Any, context: Any) -> Any:
            try:
                authorise(authorizer, request, context)
            except KafkaError as error:
                return await _refused(api, request, context, error)
            return await api.handle(services, request, context)

        return msgspec.structs.replace(api, handle=checked)

    return change


async def _refused(api: Declared[Any], request: Any, context: Any, error: KafkaError) -> Any:
    """Build the error response in a worker thread, because even a client without any permission may send a large request."""
    responses = list[Any]()

    def make() -> None:
        response = api.failed(request, context.version, error.code)
        if api.key not in WITHOUT_MESSAGE:
            _set_message(response, error)
        responses.append(response)

    await in_thread(make)
    return responses[0]


def _set_message(part: Any, error: KafkaError) -> None:
    if isinstance(part, list):
        for each in part:
            _set_message(each, error)
    elif isinstance(part, msgspec.Struct):
        fields = part.__struct_fields__
        if "error_message" in fields and part.error_code == error.code:  # type: ignore[attr-defined]
            part.error_message = error.message  # type: ignore[attr-defined]
        for field in fields:
            _set_message(getattr(part, field), error)


def _field_checks(api: Declared[Any]) -> Authorise | None:
    permissions = [(needed.operation, needed.resource_type, needed.field) for needed in api.authorisation if needed.field]
    if not permissions:
        return None

    def authorise(authorizer: RequestAuthorizer, request: Any, context: Any) -> None:
        for operation, resource_type, field in permissions:
            check(authorizer, context, operation, resource_type, getattr(request, field) or "")

    return authorise


def _cluster_check(api: Declared[Any]) -> Authorise:
    operation = api.authorisation[0].operation
    if len(api.authorisation) > 1 or api.authorisation[0].resource_type is not ResourceType.CLUSTER:
        operation = AclOperation.CLUSTER_ACTION
    if api.key in WITH_PLAIN_MESSAGE:
        return lambda authorizer, request, context: check(authorizer, context, operation, ResourceType.CLUSTER)
    return lambda authorizer, request, context: check_cluster(authorizer, context, operation)
