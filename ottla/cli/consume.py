"""``ottla consume``: prints the records of a topic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import COUNT, PARTITION, asks, cluster_at
from ottla.cli.output import note, printable, show_json, text_or_base64, time_text
from ottla.cli.positions import PLACE, Position
from ottla.cli.registry_values import decoded_records, decodes

if TYPE_CHECKING:
    from ottla.client import ConsumedRecord

ISOLATIONS = ("committed", "all", "aborted")
HELP = """Print the records of a topic, one per line: partition and offset, time, key, value, headers. Stop at the end of the topic
unless --follow is given. No offsets are committed and no group is joined.

With --json, print one JSON document per record; bytes that are not UTF-8 are {"base64": ...}."""


@click.command("consume", help=HELP)
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default="committed",
    help="committed: records that read_committed consumers see; aborted: those of aborted transactions; all (default: committed).",
)
@click.option("--show-control", is_flag=True, help="Include transaction markers.")
@click.option(
    "--from",
    "start",
    type=PLACE,
    default="beginning",
    metavar="PLACE",
    help="First position: beginning, end, an offset, or a time such as 2026-11-23T17:00:00Z (default: beginning).",
)
@click.option(
    "--partition",
    "partitions",
    type=PARTITION,
    multiple=True,
    metavar="P",
    help="Partition to read; repeatable (default: all partitions).",
)
@click.option("--max", "at_most", type=COUNT, metavar="N", help="Maximum number of records to print.")
@click.option("--follow", is_flag=True, help="Wait for new records until Ctrl-C.")
@click.option("--values", "values_only", is_flag=True, help="Print raw values only.")
@decodes
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
    decode: bool,
    registry: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    if as_json and values_only:
        raise click.UsageError("--json and --values exclude each other; give one of them")
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
        for record in decoded_records(records, registry, decodes=decode):
            _show(record, as_json=as_json, values_only=values_only)
            shown += 1
            if shown == at_most:
                break
            if follow:
                sys.stdout.flush()
    if not shown and not as_json and sys.stderr.isatty():
        note(f"there are no matching records in {topic}")


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
