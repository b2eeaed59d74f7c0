"""``ottla consume``: prints the records of a topic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import COUNT, PARTITION, asks, cluster_at
from ottla.cli.output import note, printable, show_json, text_or_base64, time_text
from ottla.cli.positions import PLACE, Position

if TYPE_CHECKING:
    from ottla.client import ConsumedRecord

ISOLATIONS = ("committed", "all", "aborted")
HELP = """Shows a topic's records, a line each: partition and offset, time, key, value, headers. It ends where the topic ends,
unless --follow is given. Nothing is committed, and no group is joined.

With --json each record is a document on a line of its own; bytes that are no text are {"base64": ...}."""


@click.command("consume", help=HELP)
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default="committed",
    help="committed: what read_committed consumers see; aborted: what they never see; all: also what is open (default: committed)",
)
@click.option("--show-control", is_flag=True, help="the markers of transactions as well")
@click.option(
    "--from",
    "start",
    type=PLACE,
    default="beginning",
    metavar="PLACE",
    help="beginning, end, an offset, or a time such as 2026-11-23T17:00:00Z (default: beginning)",
)
@click.option("--partition", "partitions", type=PARTITION, multiple=True, metavar="P", help="only this one; may be given again")
@click.option("--max", "at_most", type=COUNT, metavar="N", help="end after so many records")
@click.option("--follow", is_flag=True, help="go on with what comes later, until Ctrl-C")
@click.option("--values", "values_only", is_flag=True, help="nothing but the values, byte by byte")
@asks
def command(
    topic: str,
    isolation: Any,
    show_control: bool,
    start: Position,
    partitions: tuple[int, ...],
    at_most: int | None,
    follow: bool,
    values_only: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    if as_json and values_only:
        raise click.UsageError("--json and --values both say how to show records; give one of them")
    shown = 0
    with cluster_at(bootstrap, timeout_s) as cluster:
        indexes = list(partitions) or cluster.brokers.partitions(topic)
        records = cluster.stream(
            topic,
            isolation,
            partitions=indexes,
            start=start.offsets(cluster.brokers, topic, indexes),
            show_control=show_control,
            follow=follow,
        )
        for record in records:
            _show(record, as_json=as_json, values_only=values_only)
            shown += 1
            if shown == at_most:
                break
            if follow:
                sys.stdout.flush()
    if not shown and not as_json and sys.stderr.isatty():
        note(f"there are no such records in {topic}")


def _show(record: ConsumedRecord, *, as_json: bool, values_only: bool) -> None:
    if as_json:
        show_json(document(record))
    elif values_only:
        sys.stdout.buffer.write((record.value or b"") + b"\n")
    else:
        click.echo(line(record))


def document(record: ConsumedRecord) -> dict[str, Any]:
    is_marker = record.control is not None
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": None if is_marker else text_or_base64(record.key),
        "value": None if is_marker else text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "transactional": record.transactional,
        "control": record.control,
    }


def line(record: ConsumedRecord) -> str:
    head = f"{record.partition}:{record.offset}\t{time_text(record.timestamp_ms)}"
    if record.control is not None:
        return f"{head}\t{record.control} of producer {record.producer_id} epoch {record.producer_epoch}"
    headers = " ".join(f"{printable(name)}={printable(value)}" for name, value in record.headers)
    return f"{head}\t{printable(record.key)}\t{printable(record.value)}" + (f"\t{headers}" if headers else "")
