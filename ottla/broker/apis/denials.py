"""The newest actions that the authorizer has denied, each with the ACL that denies it, if any."""

from __future__ import annotations

from collections import OrderedDict

from ottla.broker.apis.authorizer_port import Client, Denial
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import AclOperation, ResourceType
from ottla.security.acl.standard_authorizer import Decision
from ottla.security.principal import KafkaPrincipal

MAX_DENIALS = 1_000
"""Maximum number of denied actions in memory. The action that was not repeated for the longest time is dropped first."""
TEXT_CHARACTERS = 249
"""Maximum number of characters of a client's string that are stored.

Clients may send 32,767; 249 is Kafka's limit for topic names.
"""

_Key = tuple[KafkaPrincipal, AclOperation, ResourceType, str]


class Denials:
    """Denied actions by principal, operation and resource."""

    __slots__ = ("_by_action",)

    def __init__(self) -> None:
        self._by_action: OrderedDict[_Key, Denial] = OrderedDict()

    def note(
        self, now_ms: int, client: Client, operation: AclOperation, resource_type: ResourceType, name: str, decision: Decision
    ) -> None:
        key = (client.principal, operation, resource_type, name[:TEXT_CHARACTERS])
        known = self._by_action.pop(key, None)
        rule = decision.rule
        self._by_action[key] = Denial(
            principal=str(client.principal)[:TEXT_CHARACTERS],
            client_host=client.client_host,
            operation=operation.name,
            resource_type=resource_type.name,
            resource=key[-1],
            denied_by=rule.summary if isinstance(rule, AclBinding) else None,
            first_ms=now_ms if known is None else known.first_ms,
            last_ms=now_ms,
            times=1 if known is None else known.times + 1,
        )
        if len(self._by_action) > MAX_DENIALS:
            self._by_action.popitem(last=False)

    def newest_first(self) -> list[Denial]:
        return list(reversed(self._by_action.values()))
