"""``ottla quota``: sets, lists and removes the quotas of users, client ids and addresses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ottla.arguments import BadArgument
from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import Checked, asks, cluster_at, key_value
from ottla.cli.output import note, short, show_json, show_line, show_table

ENTITY_HELP = """Give a user, a client id, both, or an address; or the defaults for all users, client ids or addresses without
quotas of their own. The most specific quota applies to a client."""
KEYS_HELP = """Keys: producer_byte_rate and consumer_byte_rate (bytes per second), request_percentage (percent of a thread),
controller_mutation_rate (partitions created or deleted per second), and for an address connection_creation_rate (per second)."""

C = TypeVar("C", bound=Callable[..., Any])


def quota_value(text: str) -> tuple[str, float]:
    """Parse ``KEY=NUMBER``. Raises `BadArgument`."""
    key, value = key_value(text)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise BadArgument(f"{text!r} is not KEY=NUMBER with a number above 0; ottla quota remove removes a quota")
    return key, number


QUOTA = Checked("quota", quota_value)


def _of_entity(command: C) -> C:
    for option, text in (
        ("--ip-defaults", "All addresses without quotas of their own."),
        ("--client-defaults", "All client ids without quotas of their own."),
        ("--user-defaults", "All users without quotas of their own."),
    ):
        command = click.option(option, is_flag=True, help=text)(command)
    command = click.option("--ip", metavar="ADDRESS", help="Address of clients.")(command)
    command = click.option("--client-id", metavar="ID", help="Client id.")(command)
    return click.option("--user", metavar="NAME", help="User; ANONYMOUS on a listener without authentication.")(command)


def _entity(
    user: str | None, client_id: str | None, ip: str | None, user_defaults: bool, client_defaults: bool, ip_defaults: bool
) -> dict[str, str | None]:
    from ottla.protocol.client_quotas import CLIENT_ID, IP, USER

    entity: dict[str, str | None] = {}
    for kind, option, name, defaults, is_default in (
        (USER, "--user", user, "--user-defaults", user_defaults),
        (CLIENT_ID, "--client-id", client_id, "--client-defaults", client_defaults),
        (IP, "--ip", ip, "--ip-defaults", ip_defaults),
    ):
        if name is not None and is_default:
            raise click.UsageError(f"{option} and {defaults} exclude each other")
        if name == "":
            raise click.UsageError(f"{option}: expected a name; give {defaults} for all without quotas of their own")
        if name is not None or is_default:
            entity[kind] = name
    if IP in entity and len(entity) > 1:
        raise click.UsageError("an address and a user or client id exclude each other")
    return entity


def _given(**options: Any) -> dict[str, str | None]:
    entity = _entity(**options)
    if not entity:
        raise click.UsageError("expected a user, client id or address; give --user, --client-id, --ip or their defaults")
    return entity


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{key}={_number(value)}" for key, value in values.items())


def _number(value: float) -> str:
    """Format a value without an exponent, because most quotas are bytes per second."""
    if not math.isfinite(value):
        return str(_json_number(value))
    return f"{value:.0f}" if value.is_integer() else repr(value)


def _json_number(value: float) -> float | str:
    """Return the value, or its name in Kafka's commands if it is infinite or NaN, which JSON lacks. Only Apache Kafka stores
    NaN."""
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity"


@click.group("quota", cls=CommandGroup, help="Set, list and remove quotas of users, client ids and addresses.")
def command() -> None:
    pass


@command.command("set", help=f"Set quotas.\n\n{ENTITY_HELP}\n\n{KEYS_HELP}")
@click.argument("quotas", type=QUOTA, metavar="KEY=NUMBER...", nargs=-1, required=True)
@_of_entity
@asks
def set_(quotas: tuple[tuple[str, float], ...], bootstrap: str, timeout_s: float, as_json: bool, **entity_options: Any) -> None:
    from ottla.client.admin.quotas import alter_quotas, entity_text

    entity, values = _given(**entity_options), dict(quotas)
    with cluster_at(bootstrap, timeout_s) as cluster:
        alter_quotas(cluster.brokers, entity, values)
    if as_json:
        show_json({"entity": entity, "set": values})
    else:
        show_line(f"{entity_text(entity)}: {_text(values)}")


@command.command(
    "list", help="List the quotas of all entities, or of those with the given names. In JSON the name of defaults is null."
)
@_of_entity
@asks
def list_(bootstrap: str, timeout_s: float, as_json: bool, **entity_options: Any) -> None:
    from ottla.client.admin.quotas import entity_text, list_quotas

    entity = _entity(**entity_options)
    with cluster_at(bootstrap, timeout_s) as cluster:
        listed = list_quotas(cluster.brokers, entity)
    if as_json:
        values = [{key: _json_number(value) for key, value in quotas.values.items()} for quotas in listed]
        show_json([{"entity": quotas.entity, "quotas": own} for quotas, own in zip(listed, values, strict=True)])
    elif listed:
        show_table(["ENTITY", "QUOTAS"], [(short(entity_text(quotas.entity)), _text(quotas.values)) for quotas in listed])
    else:
        note("there are no quotas; ottla quota set sets them")


@command.command("remove", help=f"Remove the named quotas, or all quotas of an entity.\n\n{ENTITY_HELP}")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@_of_entity
@asks
def remove(keys: tuple[str, ...], bootstrap: str, timeout_s: float, as_json: bool, **entity_options: Any) -> None:
    from ottla.client.admin.quotas import alter_quotas, entity_text, list_quotas

    entity = _given(**entity_options)
    with cluster_at(bootstrap, timeout_s) as cluster:
        found = [quotas.values for quotas in list_quotas(cluster.brokers, entity, is_strict=True) if quotas.entity == entity]
        known = found[0] if found else {}
        unknown = sorted(set(keys) - set(known))
        if unknown:
            raise Refused(f"{entity_text(entity)} has no quota {unknown[0]!r}; ottla quota list shows the quotas")
        if not known:
            raise Refused(f"{entity_text(entity)} has no quotas; ottla quota list shows the quotas")
        removed = [key for key in known if not keys or key in keys]
        alter_quotas(cluster.brokers, entity, dict.fromkeys(removed))
    if as_json:
        show_json({"entity": entity, "removed": removed})
    else:
        show_line(f"{entity_text(entity)}: removed {', '.join(removed)}")
