"""The list of commands. To add a command, write a module with the attribute ``command`` and add a line here."""

from __future__ import annotations

from typing import Final

import click

from ottla import __version__
from ottla.cli.commands import CommandGroup, Lazy

COMMANDS: Final = {
    "serve": Lazy("serve", "run a broker in the foreground until SIGTERM or Ctrl-C"),
    "health": Lazy("health", "exit with 0 if a broker answers and its log directory is healthy, else with 1"),
    "topic": Lazy("topic", "create, list, describe, alter and delete topics"),
    "produce": Lazy("produce", "write records to a topic"),
    "consume": Lazy("consume", "print records of a topic: committed, aborted or all"),
    "copy": Lazy("copy", "copy a topic to another cluster, each record exactly once"),
    "record": Lazy("record", "delete the oldest records of topics"),
    "group": Lazy("group", "list, describe and delete groups of all types, and set their offsets"),
    "txn": Lazy("txn", "list, describe and abort transactions, and find hanging ones"),
    "fault": Lazy("fault", "add errors, delays, lost responses and crashes to a broker with a control port"),
    "clock": Lazy("clock", "show and advance the clock of a broker with a control port"),
    "top": Lazy("top", "watch topics, groups and transactions of a cluster in the terminal"),
    "console": Lazy("console", "serve the web console for a cluster"),
    "doctor": Lazy("doctor", "find out why a client cannot connect"),
    "why": Lazy("why", "explain why a group has lag, and what to do"),
    "config": Lazy("config", "show and set configurations of topics, brokers and groups"),
    "quota": Lazy("quota", "set, list and remove quotas of users, client ids and addresses"),
    "acl": Lazy("acl", "list, add and remove ACLs"),
    "user": Lazy("user", "list, add and remove users of SASL SCRAM"),
    "cluster": Lazy("cluster", "show the cluster's brokers and features"),
    "graduate": Lazy("graduate", "convert a data directory so that Apache Kafka can start on it"),
    "adopt": Lazy("adopt", "import topics from a data directory of Apache Kafka"),
    "audit": Lazy("audit", "check that every transaction in a data directory is complete"),
    "dump": Lazy("dump", "print the contents of logs, indexes, snapshots and checkpoints"),
    "recover": Lazy("recover", "find damaged parts of logs, and discard them if asked"),
    "pipeline": Lazy("pipeline", "run Spark jobs from topic to topic, exactly once"),
    "spark": Lazy("spark", "check machine and cluster before a Spark stream starts"),
    "demo": Lazy("ottla.demo.command", "run the shop with injected failures and prove the result"),
    "completion": Lazy("completion", "print a shell completion script"),
}

root = CommandGroup(
    name="ottla",
    help="A Kafka broker for laptops, tests and CI. Commands with --bootstrap work with every Kafka cluster.",
    lazy=COMMANDS,
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            help="Show the version and exit.",
            callback=lambda context, parameter, value: _show_version(context, bool(value)),
        )
    ],
)


def _show_version(context: click.Context, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        click.echo(f"ottla {__version__}")
        context.exit()
