"""``ottla txn timeline``: shows the history of a transactional id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.commands import Refused
from ottla.cli.control import cluster_and_control_api, finds_control_api
from ottla.cli.options import PATH, asks
from ottla.cli.output import printable, show_json, show_table, time_text

if TYPE_CHECKING:
    from ottla.client.explain.timeline import TimelineEvent

MAX_EVENTS: Final = 200
"""Number of newest events that are shown by default."""
HELP = """Show the history of a transactional id in order: its producers, its transactions with their partitions and records, the
decisions, the markers and the outcomes.

The history is read from the partitions and from the coordinator's log, of which compaction removes older events; with --data-dir
from the files of a directory, without a broker.

With the control API of a broker of ottla (--ready-file, or --url and --token) the history also has the clients' requests, the
errors that they received, and which producer fenced which."""


@click.command("timeline", help=HELP)
@click.argument("transactional_id", metavar="TRANSACTIONAL_ID")
@click.option("--mermaid", is_flag=True, help="Print a Mermaid sequence diagram.")
@click.option(
    "--max",
    "at_most",
    type=click.IntRange(min=1),
    default=MAX_EVENTS,
    metavar="N",
    help=f"Maximum number of events, newest first (default: {MAX_EVENTS}).",
)
@click.option("--data-dir", type=PATH, metavar="DIR", help="Data directory of ottla or Apache Kafka to read instead of a cluster.")
@asks
@finds_control_api
def command(
    transactional_id: str,
    mermaid: bool,
    at_most: int,
    data_dir: Path | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
    url: str | None,
    token: str | None,
    ready_file: Path | None,
) -> None:
    from ottla.cli.txn_history import history
    from ottla.client.explain.timeline import timeline
    from ottla.control.timeline import merged

    if mermaid and as_json:
        raise click.UsageError("--mermaid and --json exclude each other; give one of them")
    if data_dir is None:
        with cluster_and_control_api(bootstrap, timeout_s, url, token, ready_file) as (cluster, control_api):
            events = merged(timeline(cluster.brokers, transactional_id), history(control_api, transactional_id))[-at_most:]
    else:
        events = _in_files(data_dir, transactional_id)[-at_most:]
    if as_json:
        show_json([document(event) for event in events])
    elif mermaid:
        click.echo(diagram(transactional_id, events))
    else:
        first_ms = events[0].time_ms
        rows = [
            (time_text(e.time_ms), f"+{max(0, e.time_ms - first_ms):,} ms", producer_text(e), description(e), e.where)
            for e in events
        ]
        show_table(["TIME", "AFTER", "PRODUCER", "WHAT", "WHERE"], rows)


def _in_files(data_dir: Path, transactional_id: str) -> list[TimelineEvent]:
    from ottla.dump.timelines import timeline
    from ottla.storage.filesystem import described
    from ottla.storage.identity import DirectoryError
    from ottla.storage.real_filesystem import RealFilesystem

    try:
        return timeline(RealFilesystem(read_only=True), str(data_dir.absolute()), transactional_id)
    except DirectoryError as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(described(error)) from None


def producer_text(event: TimelineEvent) -> str:
    """Return the producer id and epoch of an event; an empty text if it has none."""
    producer_id, epoch = event.producer
    return "" if producer_id < 0 else f"{producer_id} epoch {epoch}"


def description(event: TimelineEvent) -> str:
    """Return the event's text, with the partitions that were added to the transaction."""
    if event.kind not in ("begin", "add"):
        return event.what
    return f"{event.what}: {' '.join(f'{topic}:{index}' for topic, index in event.partitions)}"


def document(event: TimelineEvent) -> dict[str, Any]:
    producer_id, epoch = event.producer
    return {
        "time_ms": event.time_ms,
        "kind": event.kind,
        "what": event.what,
        "where": event.where,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "partitions": [{"topic": topic, "partition": index} for topic, index in event.partitions],
    }


def diagram(transactional_id: str, events: list[TimelineEvent]) -> str:
    """Return a sequence diagram (Mermaid) of the producer, the coordinator and the partitions."""
    partitions = sorted({partition for event in events if event.kind in ("data", "marker") for partition in event.partitions})
    names = {partition: f"P{at}" for at, partition in enumerate(partitions)}
    clients = {where: f"K{at}" for at, where in enumerate(dict.fromkeys(e.where for e in events if e.where.startswith("from ")))}
    lines = ["sequenceDiagram", f"    participant C as {_plain(transactional_id)}", "    participant T as coordinator"]
    lines += [f"    participant {name} as {_plain(topic)}:{index}" for (topic, index), name in names.items()]
    lines += [f"    participant {name} as {_plain(where.removeprefix('from '))}" for where, name in clients.items()]
    for event in events:
        text = _plain(f"{description(event)} ({producer_text(event)})" if producer_text(event) else event.what)
        if event.kind == "data":
            lines.append(f"    C->>{names[event.partitions[0]]}: {text}")
        elif event.kind == "marker":
            lines.append(f"    T->>{names[event.partitions[0]]}: {text}")
        elif event.where in clients:
            # An arrow that ends in a cross shows a rejected request.
            lines.append(f"    {clients[event.where]}{'-x' if event.kind == 'refused' else '->>'}T: {text}")
        elif clients or event.kind in ("complete", "expire", "reason", "refused"):
            lines.append(f"    Note over T: {text}")
        else:
            lines.append(f"    C->>T: {text}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Remove characters with a special meaning in Mermaid."""
    return printable(text.replace("\n", " ")).replace(";", ",").replace("#", "").replace("%", "")
