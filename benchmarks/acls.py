"""Measures the time of an ACL check with many ACLs: ``python -m benchmarks.acls [--acls 1000]``.

Half of the ACLs name topics, a fifth prefixes of topics, a fifth groups, and the others deny; most belong to one of fifty users,
the rest to everyone. The checked actions are decided by an ACL, or by none. "First" is the check of an action that was not checked
since the last ACL change; "again" is a repeated check.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from rich.console import Console
from rich.table import Table

from ottla.security.acl.acl_index import AclIndex
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType
from ottla.security.acl.standard_authorizer import StandardAuthorizer
from ottla.security.principal import KafkaPrincipal

USERS, CHECKS, ROUNDS, SEED = 50, 2_000, 25, 1
HOST = "10.1.2.3"
Action = tuple[KafkaPrincipal, str, AclOperation, ResourceType, str]


def acls(count: int, chosen: random.Random) -> list[AclBinding]:
    made = []
    for number in range(count):
        kind = chosen.choices(("topic", "prefix", "group", "deny"), (50, 20, 20, 10))[0]
        host = chosen.choices(("*", HOST, "10.0.0.0/8"), (80, 10, 10))[0]
        user = chosen.choices((f"User:user-{chosen.randrange(USERS)}", "User:*"), (90, 10))[0]
        made.append(
            AclBinding(
                resource_type=ResourceType.GROUP if kind == "group" else ResourceType.TOPIC,
                resource_name=f"team-{number % 40}." if kind == "prefix" else f"team-{number % 40}.{kind}-{number}",
                pattern_type=PatternType.PREFIXED if kind == "prefix" else PatternType.LITERAL,
                principal=user,
                host=host,
                operation=chosen.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.ALL)),
                permission=PermissionType.DENY if kind == "deny" else PermissionType.ALLOW,
            )
        )
    return made


def actions(known: list[AclBinding], chosen: random.Random) -> list[Action]:
    """Return actions on the resources of ACLs, half of them by the ACL's own user and half by any user."""
    made: list[Action] = []
    for _ in range(CHECKS):
        acl = chosen.choice(known)
        name = f"user-{chosen.randrange(USERS)}" if chosen.random() < 0.5 else acl.principal.removeprefix("User:")
        operation = chosen.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE))
        resource = f"{acl.resource_name}orders" if acl.pattern_type is PatternType.PREFIXED else acl.resource_name
        made.append((KafkaPrincipal("User", name), HOST, operation, acl.resource_type, resource))
    return made


def measured(count: int) -> tuple[list[float], list[float]]:
    """Return the microseconds of a first and of a repeated check, for each repetition."""
    chosen = random.Random(SEED)
    known = acls(count, chosen)
    index = AclIndex()
    for acl in known:
        index.add(acl)
    wanted = actions(known, chosen)
    first, again = list[float](), list[float]()
    for _ in range(ROUNDS):
        authorizer = StandardAuthorizer(index, frozenset(), allows_without_acl=False)
        for times in (first, again):
            began = time.process_time_ns()
            for action in wanted:
                authorizer.decide(*action)
            times.append((time.process_time_ns() - began) / len(wanted) / 1_000)
    return first, again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acls", type=int, default=1_000)
    given = parser.parse_args()
    table = Table("ACL check", "median (us)", "fastest (us)", title=f"{given.acls:,} ACLs")
    for name, times in zip(("first", "again"), measured(given.acls), strict=True):
        table.add_row(name, f"{statistics.median(times):.2f}", f"{min(times):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
