"""The lines about transactions in the report of a failed test."""

from __future__ import annotations

MAX_TRANSACTIONAL_IDS = 5
"""How many transactional ids are reported: those with the newest events."""
MAX_EVENTS = 30
"""How many of the newest events of each id are reported."""
MAX_IDS_READ = 200
TIMEOUT_S = 5.0


def transactions_since(bootstrap: str, since_ms: int) -> list[str]:
    """A line for each thing that happened to a transactional id since then. Nothing where the cluster does not answer."""
    from ottla.cli.output import printable
    from ottla.cli.txn_timeline import lines as shown
    from ottla.client import ClientError, KafkaClient
    from ottla.client.timeline import Event, timeline

    told: list[tuple[str, list[Event]]] = []
    try:
        with KafkaClient(bootstrap, TIMEOUT_S) as cluster:
            for listing in cluster.transactions()[:MAX_IDS_READ]:
                events = [e for e in timeline(cluster.brokers, listing.transactional_id) if e.time_ms >= since_ms]
                if events:
                    told.append((listing.transactional_id, events))
    except (ClientError, OSError) as error:
        return [f"their transactions cannot be told: {error}"]
    newest = sorted(told, key=lambda one: one[1][-1].time_ms)[-MAX_TRANSACTIONAL_IDS:]
    lines: list[str] = []
    for name, events in newest:
        lines += [f"{printable(name)}:", *(f"  {line}" for line in shown(events[-MAX_EVENTS:]))]
    return lines
