"""Explains which requests ACLs have denied, by which rule, and which command allows them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.durations import duration_text, elapsed_ms
from ottla.client.wording import counted
from ottla.security.acl.codes import AclOperation, ResourceType, implying_operations

PRINCIPAL = "User:"
"""The prefix of a principal. Only custom principal builders of Kafka create other prefixes."""
MAX_SHOWN = 20
"""Maximum number of explained denials. Further denials are only counted."""
_FLAGS: Final = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
"""Option of ``ottla acl`` for each type of resource that has a name."""


def denied_to(denials: Iterable[Mapping[str, Any]], principal: str) -> list[Mapping[str, Any]]:
    return [denial for denial in denials if denial["principal"] == principal]


def merged(nodes: Iterable[Iterable[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return the denials of several nodes, newest first. Denials of the same principal, operation and resource become one."""
    by_action: dict[tuple[Any, ...], dict[str, Any]] = {}
    for denial in (denial for denials in nodes for denial in denials):
        key = tuple(denial[name] for name in ("principal", "operation", "resource_type", "resource"))
        known = by_action.get(key)
        if known is None:
            by_action[key] = dict(denial)
            continue
        newest = max(known, denial, key=lambda one: int(one["last_ms"]))
        by_action[key] = {
            **newest,
            "first_ms": min(known["first_ms"], denial["first_ms"]),
            "times": known["times"] + denial["times"],
        }
    return sorted(by_action.values(), key=lambda one: -int(one["last_ms"]))


def denied_on(denials: Iterable[Mapping[str, Any]], group: str, topics: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the denials of access to a group and to its topics."""
    resources = {("GROUP", group), *(("TOPIC", topic) for topic in topics)}
    return [denial for denial in denials if (denial["resource_type"], denial["resource"]) in resources]


def why_denied(denials: Sequence[Mapping[str, Any]], now_ms: int) -> list[str]:
    """Describe each denial in two lines: principal, operation and resource, then the reason and the remedy."""
    lines: list[str] = []
    for denial in denials[:MAX_SHOWN]:
        lines += [_what(denial, now_ms), _why(denial)]
    more = len(denials) - MAX_SHOWN
    return [*lines, f"and {counted(more, 'more denied request')}"] if more > 0 else lines


def _what(denial: Mapping[str, Any], now_ms: int) -> str:
    ago_ms = elapsed_ms(denial["last_ms"], now_ms)
    when = "" if ago_ms is None else f", last {duration_text(ago_ms)} ago"
    resource = "the cluster" if denial["resource_type"] == "CLUSTER" else f"{_words(denial['resource_type'])} {denial['resource']}"
    where = f"from {denial['client_host']}" if denial["client_host"] else "from a local client"
    return f"{denial['principal']} was denied {denial['operation']} on {resource} {counted(denial['times'], 'time')}{when}, {where}"


def _why(denial: Mapping[str, Any]) -> str:
    if denial["denied_by"] is not None:
        return f"an ACL denies it: {denial['denied_by']}; ottla acl remove --deny removes it"
    operation = denial["operation"].lower().replace("_", "-")
    flag = _FLAGS.get(denial["resource_type"])
    if flag is not None and not denial["resource"].isprintable():
        return "no ACL allows it; the name of the resource has characters that cannot be shown here, see --json"
    resource = "--cluster" if flag is None else _option(flag, denial["resource"])
    principal = _option("--principal", denial["principal"])
    included = _included(denial) if operation == "describe" else ""
    return f"no ACL allows it{included}; allow it: ottla acl add {principal} --operation {operation} {resource}"


def _included(denial: Mapping[str, Any]) -> str:
    """Name the operations that include DESCRIBE. A client that lacks WRITE, for example, is first denied DESCRIBE."""
    implying = implying_operations(ResourceType[denial["resource_type"]], AclOperation.DESCRIBE)
    return f" ({' or '.join(one.name.lower() for one in implying)} would include it)" if implying else ""


def _option(flag: str, value: str) -> str:
    """Format an option for a shell. A value that begins with a hyphen is joined by ``=``, because it would be taken for an
    option."""
    return f"{flag}={shlex.quote(value)}" if value.startswith("-") else f"{flag} {shlex.quote(value)}"


def _words(resource_type: str) -> str:
    return resource_type.lower().replace("_", " ")
