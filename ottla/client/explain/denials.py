"""Explains which requests ACLs have denied, by which rule, and which command allows them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.durations import duration_text, elapsed_ms
from ottla.client.wording import counted

PRINCIPAL = "User:"
"""The prefix of a principal. Other types of principals exist only with custom principal builders of Kafka."""
MAX_SHOWN = 20
"""Maximum number of explained denials. Further denials are only counted."""
_FLAGS: Final = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
"""Option of kafka-acls for each type of resource that has a name."""


def denied_to(denials: Iterable[Mapping[str, Any]], principal: str) -> list[Mapping[str, Any]]:
    return [denial for denial in denials if denial["principal"] == principal]


def denied_on(denials: Iterable[Mapping[str, Any]], group: str, topics: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the denials on a group and on its topics."""
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
        return f"an ACL denies it: {denial['denied_by']}; remove it with kafka-acls --remove"
    operation = "".join(word.capitalize() for word in denial["operation"].split("_"))
    flag = _FLAGS.get(denial["resource_type"])
    resource = "--cluster" if flag is None else f"{flag} {shlex.quote(denial['resource'])}"
    principal = shlex.quote(denial["principal"])
    return f"no ACL allows it; allow it: kafka-acls --add --allow-principal {principal} --operation {operation} {resource}"


def _words(resource_type: str) -> str:
    return resource_type.lower().replace("_", " ")
