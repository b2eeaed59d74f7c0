"""``ottla cluster``: describes a cluster, restarts one of its nodes, and creates directories of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.addresses import joined_address
from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import PATH, READY_FILE_VARIABLE, asks, cluster_at, json_option
from ottla.cli.output import NOTHING, show_json, show_pairs, show_table
from ottla.process import interrupt_on_ctrl_c

if TYPE_CHECKING:
    from ottla.client.admin.description import Controller

REBUILD_HELP = """Create the directory of a controller that lost its disk, from the directories of its stopped brokers.

The most advanced copy of the metadata log is used. Without any copy, topics are created from the partition directories and their
topic ids. Print what was used, what is unknown, and which directories to rename. The brokers' directories are not changed. Give
--from for each broker of the cluster; then start the controller on DIR, at its old address, and the brokers."""
GROW_HELP = """Convert the data directory of a stopped single broker to that of a cluster, for `serve --brokers N`.

Broker 1 gets all data. Topics with their ids and configs, groups, transactions, producer ids and the cluster id stay. Files are
renamed, not copied. Run the command again if it was interrupted; until then no broker starts on DIR."""
RESTART_TIMEOUT_S = 100.0
"""Maximum time, in seconds, to wait for a restart. The parent process of the nodes has shorter timeouts, and reports them."""


@click.group(
    "cluster",
    cls=CommandGroup,
    invoke_without_command=True,
    help="Show the cluster id, controller, brokers, feature levels, partitions without a leader, and stray directories.",
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
    "--node-id", type=click.IntRange(0), metavar="N", help="Node id of the controller (default: its previous id, else 3000)."
)
@json_option
def rebuild_controller(data_dir: str, sources: tuple[str, ...], node_id: int | None, as_json: bool) -> int:
    from ottla.cli.cluster_directories import rebuild_controller

    interrupt_on_ctrl_c()
    return rebuild_controller(data_dir, list(sources), node_id, as_json=as_json)


@command.command("grow", help=GROW_HELP)
@click.option("--data-dir", required=True, metavar="DIR", help="Data directory of a stopped broker.")
@click.option("--brokers", required=True, type=click.IntRange(2), metavar="N", help="Number of brokers.")
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    default=1,
    metavar="R",
    help="Replicas of each partition, internal topics included. The new brokers copy their replicas from broker 1 (default: 1).",
)
@json_option
def grow(data_dir: str, brokers: int, replication_factor: int, as_json: bool) -> int:
    from ottla.brokers.plan import MAX_BROKERS
    from ottla.cli.cluster_directories import grow

    if brokers > MAX_BROKERS:
        raise Refused(f"--brokers {brokers}: give a number from 2 to {MAX_BROKERS}")
    interrupt_on_ctrl_c()
    return grow(data_dir, brokers, replication_factor, as_json=as_json)


def _describe(bootstrap: str, timeout_s: float, *, as_json: bool) -> None:
    from ottla.client.admin.description import describe

    with cluster_at(bootstrap, timeout_s) as cluster:
        described = describe(cluster.brokers)
    controller = described.controller
    if as_json:
        show_json(
            {
                "cluster_id": described.cluster_id,
                "controller": None
                if controller is None
                else {"id": controller.node_id, "host": controller.host, "port": controller.port},
                "brokers": [
                    {"id": n.node_id, "host": n.host, "port": n.port, "rack": n.rack, "fenced": n.node_id in described.fenced}
                    for n in described.brokers
                ],
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
                "strays": [{"broker": stray.broker_id, "text": stray.text} for stray in described.strays],
            }
        )
        return
    show_pairs([("cluster", described.cluster_id), ("controller", _shown(controller))])
    click.echo()
    shown = [
        (str(n.node_id), n.host, str(n.port), n.rack or NOTHING, "fenced" if n.node_id in described.fenced else "running")
        for n in described.brokers
    ]
    show_table(["BROKER", "HOST", "PORT", "RACK", "STATE"], shown)
    if described.features:
        click.echo()
        show_table(["FEATURE", "LEVEL"], list(described.features.items()))
    if described.leaderless:
        click.echo()
        rows = [(f"{p.topic}:{p.partition}", p.reason, p.remedy) for p in described.leaderless]
        show_table(["WITHOUT LEADER", "BECAUSE", "WHAT TO DO"], rows)
    if described.strays:
        click.echo()
        show_table(["BROKER", "STRAY DIRECTORY"], [(str(stray.broker_id), stray.text) for stray in described.strays])


def _shown(controller: Controller | None) -> str:
    if controller is None:
        return "none: the brokers cannot reach a controller"
    if controller.host is None or controller.port is None:
        return str(controller.node_id)
    return f"{controller.node_id} at {joined_address((controller.host, controller.port))}"


@command.command("restart", help="Restart a node of `serve --brokers` on this machine, or start it if it is not running.")
@click.argument("node", metavar="NODE")
@click.option("--data-dir", type=PATH, metavar="DIR", help="Data directory of the cluster (default: from the ready file).")
@click.option(
    "--ready-file",
    type=PATH,
    envvar=READY_FILE_VARIABLE,
    metavar="FILE",
    help=f"Ready file of the cluster, which has its data directory (default: ${READY_FILE_VARIABLE}).",
)
def restart(node: str, data_dir: Path | None, ready_file: Path | None) -> int:
    from ottla.broker.config.settings import OWN_DEFAULTS
    from ottla.brokers.control_socket import command as send
    from ottla.client.ready_line import NotReady, read_ready_file

    try:
        if data_dir is None:
            data_dir = Path(
                OWN_DEFAULTS["log.dirs"] if ready_file is None else str(read_ready_file(ready_file).get("data_dir", ""))
            )
        answer = send(str(data_dir), f"restart {node}", RESTART_TIMEOUT_S)
    except NotReady as reason:
        raise Refused(str(reason), exit_code=1) from None
    except TimeoutError:
        raise Refused(f"{node} was not ready after {RESTART_TIMEOUT_S:.0f} s; see its log lines", exit_code=1) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise Refused(
            f"no cluster of `ottla serve --brokers` is running on {data_dir} ({why}); give the --data-dir of a running cluster",
            exit_code=1,
        ) from None
    if answer.get("event") != "started":
        raise Refused(str(answer.get("reason")), exit_code=1)
    click.echo(f"{answer['name']} runs as process {answer['pid']}")
    return 0
