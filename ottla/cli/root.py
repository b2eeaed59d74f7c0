"""The list of commands. A new command is a module in this package with a ``command``, and a line here."""

from __future__ import annotations

from typing import Final

import click

from ottla import __version__
from ottla.cli.commands import CommandGroup, Lazy

COMMANDS: Final = {
    "serve": Lazy("serve", "run a broker in the foreground until SIGTERM or Ctrl-C"),
    "health": Lazy("health", "exit 0 if a broker answers and its log directory is well, else 1"),
    "topic": Lazy("topic", "create, list, describe and delete topics"),
    "produce": Lazy("produce", "write lines, or values, to a topic"),
    "consume": Lazy("consume", "show a topic's records: committed, aborted or all"),
    "group": Lazy("group", "list and describe groups of all types, and set their offsets"),
    "txn": Lazy("txn", "list, describe and abort transactions, and find hanging ones"),
    "fault": Lazy("fault", "errors, delays, lost answers and crashes on demand, of a broker with a control port"),
    "clock": Lazy("clock", "show and move the clock of a broker with a control port"),
    "why": Lazy("why", "say what keeps a group from the end of its topics, and what to do"),
    "config": Lazy("config", "show and set configs of topics, brokers and groups"),
    "cluster": Lazy("cluster", "show the cluster's brokers and features"),
    "graduate": Lazy("graduate", "turn a data directory into one that Apache Kafka starts on"),
    "adopt": Lazy("adopt", "take topics of an Apache Kafka data directory over"),
    "audit": Lazy("audit", "exit 0 if every transaction in a data directory is whole, else name those that are not"),
    "dump": Lazy("dump", "show what stands in logs, indexes, snapshots and checkpoints"),
    "recover": Lazy("recover", "find damaged parts of logs, and give them up where that is asked for"),
    "pipeline": Lazy("pipeline", "Spark jobs, exactly once from topic to topic"),
    "demo": Lazy("ottla.demo.command", "run the shop with injected failures and prove the result"),
    "completion": Lazy("completion", "print what makes a shell complete ottla's commands"),
}

root = CommandGroup(
    name="ottla",
    help="A small broker that speaks Kafka. Commands that take --bootstrap work with any Kafka.",
    lazy=COMMANDS,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            help="show the version",
            callback=lambda context, parameter, value: _show_version(context, bool(value)),
        )
    ],
)


def _show_version(context: click.Context, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        click.echo(f"ottla {__version__}")
        context.exit()
