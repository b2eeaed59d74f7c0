"""``ottla cluster``: describes a cluster and its partitions without a leader, and makes the directory of a lost controller anew."""

from __future__ import annotations

import click

from ottla.cli.commands import CommandGroup
from ottla.cli.options import asks, cluster_at, json_option
from ottla.cli.output import NOTHING, show_json, show_pairs, show_table
from ottla.process import interrupt_on_ctrl_c

REBUILD_HELP = """Create the directory of a controller that lost its disk, from the directories of its stopped brokers.

The most advanced copy of the metadata log is used. Without any copy, topics are made from the partition directories and their topic
ids. Print what was used, what is unknown, and which directories to rename. The brokers' directories are not changed. Name all
brokers of the cluster; then start the controller on DIR, at its old address, and the brokers."""


class _Describing(CommandGroup):
    """A group that works without a command, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return click.Group.parse_args(self, ctx, args)


@click.group(
    "cluster",
    cls=_Describing,
    invoke_without_command=True,
    help="Show the cluster id, brokers, feature levels, and partitions without a leader.",
)
@asks
@click.pass_context
def command(ctx: click.Context, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    if ctx.invoked_subcommand is None:
        _describe(bootstrap, timeout_s, as_json=as_json)


@command.command("rebuild-controller", help=REBUILD_HELP)
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory of the new controller; must be empty or not exist.")
@click.option(
    "--from", "sources", required=True, multiple=True, metavar="BROKER_DIR", help="Data directory of a stopped broker; repeatable."
)
@click.option(
    "--node-id", type=click.IntRange(0), metavar="N", help="Node id of the controller (default: that of the lost one, else 3000)."
)
@json_option
def rebuild_controller(data_dir: str, sources: tuple[str, ...], node_id: int | None, as_json: bool) -> int:
    from ottla.cli.directories import rebuild_controller

    interrupt_on_ctrl_c()
    return rebuild_controller(data_dir, list(sources), node_id, as_json=as_json)


def _describe(bootstrap: str, timeout_s: float, *, as_json: bool) -> None:
    from ottla.client.description import describe

    with cluster_at(bootstrap, timeout_s) as cluster:
        described = describe(cluster.brokers)
    if as_json:
        show_json(
            {
                "cluster_id": described.cluster_id,
                "controller": described.controller,
                "brokers": [{"id": n.node_id, "host": n.host, "port": n.port, "rack": n.rack} for n in described.brokers],
                "features": described.features,
                "leaderless": [
                    {
                        "topic": p.topic,
                        "partition": p.partition,
                        "replicas": p.replicas,
                        "offline": p.offline,
                        "reason": p.reason,
                        "remedy": p.remedy,
                    }
                    for p in described.leaderless
                ],
            }
        )
        return
    show_pairs([("cluster", described.cluster_id), ("controller", described.controller if described.controller >= 0 else NOTHING)])
    click.echo()
    show_table(["BROKER", "HOST", "PORT", "RACK"], [(n.node_id, n.host, str(n.port), n.rack or NOTHING) for n in described.brokers])
    if described.features:
        click.echo()
        show_table(["FEATURE", "LEVEL"], list(described.features.items()))
    if described.leaderless:
        click.echo()
        rows = [(f"{p.topic}:{p.partition}", p.reason, p.remedy) for p in described.leaderless]
        show_table(["WITHOUT LEADER", "BECAUSE", "WHAT TO DO"], rows)
