"""The section about transactions in the report of a failed test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.kafka_client import KafkaClient
    from ottla.control.remote import Remote

MAX_TRANSACTIONAL_IDS = 5
"""Maximum number of transactional ids in a report. Ids with the newest events are included."""
MAX_EVENTS = 30
"""Maximum number of newest events of each id in a report."""
MAX_IDS_READ = 200


def transactions_since(open_client: Callable[[], KafkaClient], since_ms: int, control_api: Remote | None = None) -> list[str]:
    """Return a line for each event of transactional ids since ``since_ms``, or an error line if the cluster does not respond.

    ``open_client`` opens a client of the cluster. The broker's ``control_api`` adds the clients of requests, errors, and the causes
    of fencing.
    """
    from ottla.cli.commands import Refused
    from ottla.cli.output import printable
    from ottla.cli.txn_history import history
    from ottla.cli.txn_timeline import lines as shown
    from ottla.client import ClientError
    from ottla.client.explain.timeline import Event, timeline
    from ottla.control.remote import ControlError
    from ottla.control.timeline import merged

    told: list[tuple[str, list[Event]]] = []
    try:
        with open_client() as cluster:
            stored = [listing.transactional_id for listing in cluster.transactions()]
            # The logs do not contain an id whose requests were all rejected, but the control API knows such ids.
            asked = [] if control_api is None else [name for name, newest_ms in control_api.known_ids() if newest_ms >= since_ms]
            in_logs = set(stored)
            for name in list(dict.fromkeys([*asked, *stored]))[:MAX_IDS_READ]:
                logged = timeline(cluster.brokers, name) if name in in_logs else []
                events = merged(logged, history(control_api, name))
                events = [event for event in events if event.time_ms >= since_ms]
                if events:
                    told.append((name, events))
    except (ClientError, ControlError, Refused, OSError) as error:
        return [f"their transactions cannot be shown: {error}"]
    newest = sorted(told, key=lambda one: one[1][-1].time_ms)[-MAX_TRANSACTIONAL_IDS:]
    lines: list[str] = []
    for name, events in newest:
        lines += [f"{printable(name)}:", *(f"  {printable(line)}" for line in shown(events[-MAX_EVENTS:]))]
    return lines
