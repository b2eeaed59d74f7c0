"""``ottla config``: shows and changes configs of topics, brokers, groups and client metrics."""

from __future__ import annotations

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import KEY_VALUE, asks, cluster_at
from ottla.cli.output import note, show_json, show_line, show_table

KINDS = ("topic", "broker", "group", "client-metrics", "broker-logger")
KIND_HELP = """KIND is topic, broker, group, client-metrics or broker-logger. NAME is a topic, a broker id, a group and so on; the
broker "default" is the configuration of all brokers."""
DEFAULT_NAME = "default"


@click.group("config", cls=CommandGroup, help="Show and change configurations of topics, brokers, groups and client metrics.")
def command() -> None:
    pass


def _resource(name: str, kind: str) -> str:
    return "" if kind == "broker" and name == DEFAULT_NAME else name


@command.command("get", help=f"Show the named configurations, or all that are set.\n\n{KIND_HELP}")
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("name", metavar="NAME")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("--all", "shows_all", is_flag=True, help="Include configurations that are at their default.")
@asks
def get(kind: str, name: str, keys: tuple[str, ...], shows_all: bool, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin.topics import ConfigKind, get_configs

    with cluster_at(bootstrap, timeout_s) as cluster:
        configs = get_configs(cluster.brokers, ConfigKind[kind.replace("-", "_").upper()], _resource(name, kind))
    unknown = sorted(set(keys) - {config.name for config in configs})
    if unknown:
        raise Refused(f"{kind} {name!r} has no config {unknown[0]!r}; --all shows its configs")
    wanted = [config for config in configs if (config.name in keys if keys else shows_all or config.own)]
    if as_json:
        show_json([{"name": c.name, "value": c.value, "source": c.source, "read_only": c.read_only} for c in wanted])
    elif wanted:
        rows = [(c.name, "(hidden)" if c.sensitive else c.value if c.value is not None else "", c.source) for c in wanted]
        show_table(["CONFIG", "VALUE", "SET BY"], rows)
    else:
        note(f"{kind} {name} has no configs set; --all includes those at their default")


@command.command("set", help=f"Set and unset configurations in one request: all of them or none.\n\n{KIND_HELP}")
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("name", metavar="NAME")
@click.argument("assignments", type=KEY_VALUE, metavar="KEY=VALUE...", nargs=-1)
@click.option("--unset", multiple=True, metavar="KEY", help="Key to return to its default; repeatable.")
@asks
def set_(
    kind: str,
    name: str,
    assignments: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin.config_effects import effect_warnings, without_effect
    from ottla.client.admin.topics import ConfigKind, set_configs

    values: dict[str, str | None] = {**dict(assignments), **dict.fromkeys(unset)}
    if not values:
        raise click.UsageError("there is nothing to set; give KEY=VALUE or --unset KEY")
    with cluster_at(bootstrap, timeout_s) as cluster:
        config_kind, resource = ConfigKind[kind.replace("-", "_").upper()], _resource(name, kind)
        set_configs(cluster.brokers, config_kind, resource, values)
        unused = without_effect(cluster.brokers, config_kind, resource, dict(assignments).keys() - set(unset))
    for warning in effect_warnings(unused):
        note(warning)
    if as_json:
        show_json({"kind": kind, "name": name, "set": dict(assignments), "unset": list(unset), "without_effect": unused})
    else:
        changes = [f"{key}={value}" for key, value in assignments] + [f"{key} was reset to its default" for key in unset]
        show_line(f"{kind} {name}: {', '.join(changes)}")
