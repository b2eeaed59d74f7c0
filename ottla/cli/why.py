"""``ottla why``: explains why a group has lag."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.control import cluster_and_control_api, finds_control_api, time_of
from ottla.cli.options import asks
from ottla.cli.output import show_json, show_line


@click.command("why", help="Explain why a group has lag, and what to do.")
@click.argument("group", metavar="GROUP")
@asks
@finds_control_api
def command(
    group: str, bootstrap: str, timeout_s: float, as_json: bool, url: str | None, token: str | None, ready_file: Path | None
) -> None:
    from ottla.cli.txn_history import holders
    from ottla.cli.txn_why import document
    from ottla.client.admin.positions import total_lag
    from ottla.client.explain.diagnosis import waiting_group
    from ottla.client.explain.reasons import why_group_waits

    with cluster_and_control_api(bootstrap, timeout_s, url, token, ready_file) as (cluster, control_api):
        waiting = waiting_group(cluster.brokers, group)
        now_ms = time_of(control_api)
    clients = holders(control_api, waiting.held)
    lines = why_group_waits(waiting, now_ms, clients)
    if as_json:
        total = total_lag(waiting.group.positions)
        show_json(
            {
                "group": group,
                "state": waiting.group.state,
                "members": len(waiting.group.members),
                "lag": total.known,
                "uncommitted": total.uncommitted,
                "from_earliest": total.from_earliest,
                "held": [document(one, now_ms, clients) for one in waiting.held],
                "reasons": lines,
            }
        )
        return
    for line in lines:
        show_line(line)
