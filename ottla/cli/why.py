"""``ottla why``: explains why a group has lag, and which of a user's requests were denied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.commands import Refused
from ottla.cli.control import cluster_and_control_api, finds_control_api, remotes, time_of
from ottla.cli.options import asks
from ottla.cli.output import show_json, show_line

if TYPE_CHECKING:
    from ottla.control.remote import Remote


@click.command("why", help="Explain why a group has lag, or which requests of a principal such as User:alice were denied.")
@click.argument("subject", metavar="GROUP|PRINCIPAL")
@asks
@finds_control_api
def command(
    subject: str, bootstrap: str, timeout_s: float, as_json: bool, url: str | None, token: str | None, ready_file: Path | None
) -> None:
    from ottla.client.explain.denials import PRINCIPAL

    if subject.startswith(PRINCIPAL):
        _explain_principal(subject, remotes(url, token, ready_file), as_json=as_json)
    else:
        with cluster_and_control_api(bootstrap, timeout_s, url, token, ready_file) as (cluster, control_api):
            _explain_group(subject, cluster, control_api, as_json=as_json)


def _explain_principal(principal: str, nodes: Sequence[Remote], *, as_json: bool) -> None:
    """Explain the denied requests of a principal on all nodes. The first node is a broker, whose clock may be manual."""
    from ottla.client.explain.denials import denied_to, merged, why_denied

    denials = merged(denied_to(_denials(node), principal) for node in nodes)
    lines = why_denied(denials, time_of(nodes[0]))
    if as_json:
        show_json({"principal": principal, "denials": denials, "reasons": lines})
        return
    for line in lines or [f"no request of {principal} was denied since the broker started"]:
        show_line(line)


def _explain_group(group: str, cluster: Any, control_api: Remote | None, *, as_json: bool) -> None:
    from ottla.cli.txn_history import holders
    from ottla.cli.txn_why import document
    from ottla.client.admin.positions import total_lag
    from ottla.client.explain.denials import denied_on, why_denied
    from ottla.client.explain.diagnosis import waiting_group
    from ottla.client.explain.reasons import why_group_waits

    waiting = waiting_group(cluster.brokers, group)
    now_ms = time_of(control_api)
    clients = holders(control_api, waiting.held)
    topics = {position.topic for position in waiting.group.positions}
    denials = [] if control_api is None else denied_on(_denials(control_api), group, topics)
    lines = why_group_waits(waiting, now_ms, clients) + why_denied(denials, now_ms)
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
                "denials": denials,
                "reasons": lines,
            }
        )
        return
    for line in lines:
        show_line(line)


def _denials(control_api: Remote) -> list[dict[str, Any]]:
    from ottla.control.remote import ControlError

    try:
        return control_api.denials()
    except ControlError as error:
        raise Refused(str(error)) from None
