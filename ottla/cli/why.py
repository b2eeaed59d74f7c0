"""``ottla why``: says what a group waits for."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.control import bootstrap_of, door_if_any, finds_door, time_of
from ottla.cli.options import asks, cluster_at
from ottla.cli.output import show_json, show_line


@click.command("why", help="Says what keeps a group from the end of its topics, and what to do.")
@click.argument("group", metavar="GROUP")
@asks
@finds_door
def command(
    group: str, bootstrap: str, timeout_s: float, as_json: bool, url: str | None, token: str | None, ready_file: Path | None
) -> None:
    from ottla.cli.txn_history import holders
    from ottla.cli.txn_why import document
    from ottla.client.diagnosis import waiting_group
    from ottla.client.reasons import why_group_waits

    door = door_if_any(url, token, ready_file)
    with cluster_at(bootstrap_of(bootstrap, ready_file), timeout_s) as cluster:
        waiting = waiting_group(cluster.brokers, group)
        now_ms = time_of(cluster, door)
    clients = holders(door, waiting.held)
    lines = why_group_waits(waiting, now_ms, clients)
    if as_json:
        show_json(
            {
                "group": group,
                "state": waiting.group.state,
                "members": len(waiting.group.members),
                "lag": sum(position.lag for position in waiting.behind),
                "held": [document(one, now_ms, clients) for one in waiting.held],
                "reasons": lines,
            }
        )
        return
    for line in lines:
        show_line(line)
