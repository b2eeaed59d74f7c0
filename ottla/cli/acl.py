"""``ottla acl``: lists, adds and removes ACLs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ottla.arguments import BadArgument
from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import Checked, asks, cluster_at
from ottla.cli.output import note, short, show_json, show_line, show_table

if TYPE_CHECKING:
    from ottla.client.admin.acls import Resources
    from ottla.security.acl.bindings import AclBinding
    from ottla.security.acl.codes import AclOperation

C = TypeVar("C", bound=Callable[..., Any])

ADD_HELP = """Allow a principal's operations on resources, or deny them with --deny. Existing ACLs do not change.

An ACL with the name "*" applies to all topics, groups or transactional ids."""
REMOVE_HELP = """Remove the ACLs that match all given options, and print them. Names of resources are compared literally.

Without --operation, --host and --deny or --allow, ACLs with all operations, hosts and permissions are removed."""


@click.group("acl", cls=CommandGroup, help="List, add and remove ACLs.")
def command() -> None:
    pass


def _operation(text: str) -> AclOperation:
    from ottla.client.admin.acls import operation_of

    return operation_of(text)


def _principal(text: str) -> str:
    from ottla.client.admin.acls import principal_of

    return principal_of(text)


PRINCIPAL = Checked("principal", _principal)


def _resources(command: C) -> C:
    """Add the options for the resources of ACLs, which the command receives as ``resources``."""

    @wraps(command)
    def with_resources(**given: Any) -> None:
        from ottla.client.admin.acls import resources

        names = {name: given.pop(name) for name in ("topics", "groups", "transactional_ids", "delegation_tokens", "users")}
        command(resources=resources(**names, has_cluster=given.pop("has_cluster")), **given)

    selecting: Callable[..., Any] = with_resources
    for flag, name, kind, metavar, help_text in (
        ("--user-principal", "users", PRINCIPAL, "NAME", "User whose delegation tokens the operations concern; repeatable."),
        ("--delegation-token", "delegation_tokens", None, "ID", "Id of a delegation token; repeatable."),
        ("--transactional-id", "transactional_ids", None, "NAME", "Transactional id; repeatable."),
        ("--group", "groups", None, "NAME", "Group of any type; repeatable."),
        ("--topic", "topics", None, "NAME", "Topic; repeatable."),
    ):
        selecting = click.option(flag, name, type=kind, multiple=True, metavar=metavar, help=help_text)(selecting)
    return cast(C, click.option("--cluster", "has_cluster", is_flag=True, help="The resource is the cluster.")(selecting))


operation_option = click.option(
    "--operation",
    "operations",
    type=Checked("operation", _operation),
    multiple=True,
    metavar="OPERATION",
    help="Operation: all, read, write, create, delete, alter, describe, and the others of kafka-acls; repeatable.",
)
host_option = click.option("--host", metavar="HOST", help="Address or network of the clients, such as 10.0.0.0/8 (default: all).")


@command.command("add", help=ADD_HELP)
@click.option("--principal", type=PRINCIPAL, required=True, metavar="NAME", help="User:NAME, or NAME; User:* is all users.")
@operation_option
@_resources
@click.option("--prefixed", "is_prefixed", is_flag=True, help="The names of resources are prefixes.")
@click.option("--deny", "is_denied", is_flag=True, help="Deny the operations, whatever other ACLs allow.")
@host_option
@asks
def add(
    principal: str,
    operations: Sequence[AclOperation],
    resources: Resources,
    is_prefixed: bool,
    is_denied: bool,
    host: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin.acls import add_acls, check_operations, sentence
    from ottla.security.acl.bindings import AclBinding
    from ottla.security.acl.codes import WILDCARD, PatternType, PermissionType

    if not operations or not resources:
        raise click.UsageError("give --operation, and a resource: --topic, --group, --transactional-id or --cluster")
    try:
        check_operations(resources, operations)
    except BadArgument as error:
        raise click.UsageError(str(error)) from None
    acls = [
        AclBinding(
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
            principal=principal,
            host=host or WILDCARD,
            operation=operation,
            permission=PermissionType.DENY if is_denied else PermissionType.ALLOW,
        )
        for kind, name in resources
        for operation in operations
    ]
    with cluster_at(bootstrap, timeout_s) as cluster:
        add_acls(cluster.brokers, acls)
    if as_json:
        show_json([document(acl) for acl in acls])
        return
    for acl in acls:
        show_line(f"added: {sentence(acl)}")


@command.command(
    "list", help="List ACLs. With a resource, list the ACLs that apply to it, also those with a prefix or with the name *."
)
@click.option("--principal", type=PRINCIPAL, metavar="NAME", help="List ACLs of User:NAME, or NAME (default: all).")
@_resources
@asks
def list_(
    principal: str | None,
    resources: Resources,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin.acls import list_acls, named
    from ottla.security.acl.bindings import AclBindingFilter
    from ottla.security.acl.codes import PatternType

    filters = [
        AclBindingFilter(resource_type=kind, resource_name=name, pattern_type=PatternType.MATCH, principal=principal)
        for kind, name in resources
    ] or [AclBindingFilter(principal=principal)]
    with cluster_at(bootstrap, timeout_s) as cluster:
        acls = sorted({acl for selected in filters for acl in list_acls(cluster.brokers, selected)})
    if as_json:
        show_json([document(acl) for acl in acls])
    elif acls:
        rows = [
            (
                short(acl.principal),
                named(acl.permission),
                named(acl.operation),
                named(acl.resource_type),
                short(acl.resource_name) + (" (prefix)" if acl.pattern_type is PatternType.PREFIXED else ""),
                acl.host,
            )
            for acl in acls
        ]
        show_table(["PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "HOST"], rows)
    else:
        note("there are no such ACLs; ottla acl add adds one")


@command.command("remove", help=REMOVE_HELP)
@click.option("--principal", type=PRINCIPAL, metavar="NAME", help="User:NAME, or NAME.")
@operation_option
@_resources
@click.option("--prefixed", "is_prefixed", is_flag=True, help="Remove only ACLs whose resource name is a prefix.")
@click.option("--deny", "is_denied", is_flag=True, help="Remove only ACLs that deny.")
@click.option("--allow", "is_allowed", is_flag=True, help="Remove only ACLs that allow.")
@host_option
@click.option("--all", "removes_all", is_flag=True, help="Remove all ACLs.")
@asks
def remove(
    principal: str | None,
    operations: Sequence[AclOperation],
    resources: Resources,
    is_prefixed: bool,
    is_denied: bool,
    is_allowed: bool,
    host: str | None,
    removes_all: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin.acls import remove_acls, sentence
    from ottla.security.acl.bindings import AclBindingFilter
    from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType

    if is_denied and is_allowed:
        raise click.UsageError("--deny and --allow exclude each other; give one of them")
    permission = PermissionType.DENY if is_denied else PermissionType.ALLOW if is_allowed else PermissionType.ANY
    everything: list[tuple[ResourceType, str | None]] = [(ResourceType.ANY, None)]
    filters = [
        AclBindingFilter(
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.PREFIXED if is_prefixed else PatternType.ANY,
            principal=principal,
            host=host,
            operation=operation,
            permission=permission,
        )
        for kind, name in resources or everything
        for operation in operations or [AclOperation.ANY]
    ]
    if (filters == [AclBindingFilter()]) != removes_all:
        raise click.UsageError("give --principal, a resource or another option that selects ACLs, or only --all")
    with cluster_at(bootstrap, timeout_s) as cluster:
        removed = remove_acls(cluster.brokers, filters)
    if as_json:
        show_json([document(acl) for acl in removed])
        return
    if not removed:
        raise Refused("no ACL matches; ottla acl list shows the ACLs", exit_code=1)
    for acl in removed:
        show_line(f"removed: {sentence(acl)}")


def document(acl: AclBinding) -> dict[str, str]:
    """Convert an ACL to JSON values."""
    from ottla.client.admin.acls import named

    return {
        "principal": acl.principal,
        "permission": named(acl.permission),
        "operation": named(acl.operation),
        "resource": named(acl.resource_type),
        "name": acl.resource_name,
        "pattern": named(acl.pattern_type),
        "host": acl.host,
    }
