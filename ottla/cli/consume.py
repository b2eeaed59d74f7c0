"""``ottla consume``: prints the records of a topic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.commands import Refused
from ottla.cli.options import COUNT, PARTITION, Checked, asks, cluster_at
from ottla.cli.output import note, printable, show_json, time_text
from ottla.cli.positions import PLACE
from ottla.cli.registry_values import decoded_records, decodes, record_filter, refuse_unused_registry
from ottla.client.records.reading import ISOLATIONS

if TYPE_CHECKING:
    from ottla.client import ConsumedRecord, KafkaClient
    from ottla.client.admin.places import Place
    from ottla.client.records.record_filter import Condition

MAX_LAST: Final = 100_000
"""Upper bound of --last, because these records are held in memory."""
HELP = """Print the records of a topic, one per line: partition and offset, time, key, value, headers. Stop at the end of the topic
unless --follow is given. No offsets are committed and no group is joined.

With --json, print one JSON document per record; bytes that are not UTF-8 are {"base64": ...}."""
EPILOG = r"""Conditions of --filter: FIELD=TEXT, FIELD!=TEXT, FIELD~REGEX, FIELD!~REGEX, and < <= > >= for numbers and times;
FIELD alone for records with the field, !FIELD for records without it. Fields are key, value, header.NAME, partition, offset,
time, producer, and any, which is key, value and headers. '!value' selects tombstones. A path after key or value selects a member
of a JSON document: 'value.items[0].price>100'. A JSONPath (RFC 9535) may select several members, of which one must meet the
condition: 'value$..price>100', 'value$.items[?@.price>100 && @.sku]'; JSONPath needs pip install 'ottla[console]'. With --decode,
paths apply to decoded values.

Letters of --format are those of kcat: %s or %v value, %S its length, %R its length as 4 bytes in big endian, %k key, %K its length,
%T timestamp in ms, %h headers as NAME=VALUE,..., %t topic, %p partition, %o offset, %% a percent sign; \n \r \t \xNN \NNN are
characters. The length of null is -1. No line end is added."""


def _condition(text: str) -> Any:
    from ottla.client.records.record_filter import condition

    return condition(text)


def _format(text: str) -> Any:
    from ottla.cli.record_format import RecordFormat

    return RecordFormat(text)


@dataclass(slots=True, frozen=True)
class Wanted:
    """The records to print. ``last`` is None for all records from ``start`` on."""

    topic: str
    isolation: Any
    show_control: bool
    partitions: tuple[int, ...]
    start: Place
    end: Place
    last: int | None
    follow: bool
    matches: Callable[[ConsumedRecord], bool]


@click.command("consume", help=HELP, epilog=EPILOG)
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--isolation",
    type=click.Choice(ISOLATIONS),
    default="committed",
    help="committed: records that read_committed consumers see; aborted: records of aborted transactions; all: all records"
    " (default: committed).",
)
@click.option("--show-control", is_flag=True, help="Include transaction markers.")
@click.option(
    "--from",
    "start",
    type=PLACE,
    default="beginning",
    metavar="PLACE",
    help="Position to start at: beginning, end, an offset, or a time such as 2026-11-23T17:00:00Z (default: beginning).",
)
@click.option("--to", "end", type=PLACE, default="end", metavar="PLACE", help="Position to stop before (default: end).")
@click.option(
    "--partition",
    "partitions",
    type=PARTITION,
    multiple=True,
    metavar="P",
    help="Partition to read; repeatable (default: all partitions).",
)
@click.option("--last", type=COUNT, metavar="N", help="Print only the N newest records of all partitions, by timestamp.")
@click.option(
    "--filter",
    "conditions",
    type=Checked("condition", _condition),
    multiple=True,
    metavar="CONDITION",
    help="Print only records for which the condition holds, such as value.status=paid; repeatable (all must hold).",
)
@click.option("--max", "at_most", type=COUNT, metavar="N", help="Maximum number of records to print.")
@click.option("--follow", is_flag=True, help="Wait for new records until Ctrl-C.")
@click.option("--values", "values_only", is_flag=True, help="Print raw values only.")
@click.option(
    "--format", "layout", type=Checked("format", _format), metavar="TEXT", help=r"Format of each record, as in kcat: '%k %s\n'."
)
@decodes
@asks
def command(
    topic: str,
    isolation: Any,
    show_control: bool,
    start: Place,
    end: Place,
    partitions: tuple[int, ...],
    last: int | None,
    conditions: tuple[Condition, ...],
    at_most: int | None,
    follow: bool,
    values_only: bool,
    layout: Callable[[ConsumedRecord], bytes] | None,
    decode: bool,
    registry: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.errors import BatchTooLarge

    chosen = [name for name, is_given in (("--json", as_json), ("--values", values_only), ("--format", layout)) if is_given]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} exclude each other; give one of them")
    if follow and end.kind != "end":
        raise click.UsageError("--follow and --to exclude each other; give one of them")
    refuse_unused_registry(is_needed=decode, use="decoded values; give --decode as well")
    if last is not None and last > MAX_LAST:
        raise click.UsageError(f"--last: at most {MAX_LAST:,} are allowed")
    wanted = Wanted(
        topic=topic,
        isolation=isolation,
        show_control=show_control,
        partitions=partitions,
        start=start,
        end=end,
        last=last,
        follow=follow,
        matches=record_filter(conditions, registry, decodes=decode),
    )
    shown = 0
    with cluster_at(bootstrap, timeout_s) as cluster:
        try:
            for record in decoded_records(_records(cluster, wanted), registry, decodes=decode):
                _show(record, as_json=as_json, values_only=values_only, layout=layout)
                shown += 1
                if shown == at_most:
                    break
                if follow:
                    sys.stdout.flush()
        except BatchTooLarge as error:
            raise Refused(f"{error}; continue with --partition {error.partition} --from {error.next_offset}") from None
    if not shown and not as_json and sys.stderr.isatty():
        note(f"there are no matching records in {topic}")


def _records(cluster: KafkaClient, wanted: Wanted) -> Iterator[ConsumedRecord]:
    brokers, topic = cluster.brokers, wanted.topic
    indexes = sorted(set(wanted.partitions)) or brokers.partitions(topic)
    start = wanted.start.offsets(brokers, topic, indexes)
    end = None if wanted.end.kind == "end" else wanted.end.offsets(brokers, topic, indexes)
    if wanted.last is not None:
        from ottla.client.admin.offsets import LATEST, list_offsets
        from ottla.client.records.last_records import last_records

        limits = list_offsets(brokers, topic, indexes, LATEST, committed=wanted.isolation != "all")
        if end is not None:
            limits = {index: min(limit, end[index]) for index, limit in limits.items()}
        yield from last_records(
            brokers,
            topic,
            wanted.last,
            wanted.isolation,
            partitions=indexes,
            start=start,
            end=limits,
            show_control=wanted.show_control,
            matches=wanted.matches,
        )
        if not wanted.follow:
            return
        start = limits
    for record in cluster.stream(
        topic,
        wanted.isolation,
        partitions=indexes,
        start=start,
        end=end,
        show_control=wanted.show_control,
        follow=wanted.follow,
    ):
        if wanted.matches(record):
            yield record


def _show(
    record: ConsumedRecord, *, as_json: bool, values_only: bool, layout: Callable[[ConsumedRecord], bytes] | None = None
) -> None:
    if as_json:
        from ottla.client.records.documents import document

        show_json(document(record))
    elif layout is not None:
        sys.stdout.buffer.write(layout(record))
    elif values_only:
        sys.stdout.buffer.write((record.value or b"") + b"\n")
    else:
        click.echo(line(record))


def line(record: ConsumedRecord) -> str:
    head = f"{record.partition}:{record.offset}\t{time_text(record.timestamp_ms)}"
    if record.control is not None:
        return f"{head}\t{record.control} of producer {record.producer_id} epoch {record.producer_epoch}"
    headers = " ".join(f"{printable(name)}={printable(value)}" for name, value in record.headers)
    return f"{head}\t{printable(record.key)}\t{printable(record.value)}" + (f"\t{headers}" if headers else "")
