"""The interface of an authorizer for handlers, and the authorizer that allows everything, for brokers without ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ottla.security.acl.codes import SUPPORTED_OPERATIONS, AclOperation, ResourceType, operation_bits
from ottla.security.principal import KafkaPrincipal


class Client(Protocol):
    """The client that sent a request. `broker.apis.api.RequestContext` implements this."""

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def client_host(self) -> str: ...


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """An action that was denied, and how often.

    ``denied_by`` is the ACL that denies the action; None if merely no ACL allows it.
    """

    principal: str
    client_host: str
    """The address of the client whose request for the action was denied last."""
    operation: str
    resource_type: str
    resource: str
    denied_by: str | None
    first_ms: int
    last_ms: int
    times: int


class RequestAuthorizer(Protocol):
    @property
    def is_enabled(self) -> bool:
        """Whether any request may be denied."""
        ...

    def allows(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
    ) -> bool:
        """Whether the client may perform an operation on one resource.

        With ``logs_denied`` a denial is logged; pass False if the request does not name the resource.
        """
        ...

    def allows_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may perform an operation on at least one resource of a type."""
        ...

    def operations(self, client: Client, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may perform on a resource, as the bit field of a response (KIP-430)."""
        ...

    def rates_per_minute(self) -> tuple[float, float]:
        """Return the rates per minute of allowed and of denied actions."""
        ...

    def denials(self) -> Sequence[Denial]:
        """The newest denied actions since the broker's start, latest first."""
        ...


class AllowAll:
    """The authorizer of a broker without ``authorizer.class.name``."""

    is_enabled = False

    def allows(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        logs_denied: bool = True,
    ) -> bool:
        return True

    def allows_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        return True

    def operations(self, client: Client, resource_type: ResourceType, name: str) -> int:
        return _ALL_BITS[resource_type]

    def rates_per_minute(self) -> tuple[float, float]:
        return 0.0, 0.0

    def denials(self) -> Sequence[Denial]:
        return ()


_ALL_BITS = {resource_type: operation_bits(operations) for resource_type, operations in SUPPORTED_OPERATIONS.items()}

ALLOW_ALL = AllowAll()
