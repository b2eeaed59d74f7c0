"""``ottla produce``: writes lines as records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import click

from ottla.cli.commands import Refused
from ottla.cli.options import KEY_VALUE, PARTITION, PATH, asks, cluster_at
from ottla.cli.output import note, progress, show_json
from ottla.cli.registry_values import encodes, value_encoder

MAX_LINE_BYTES: Final = 16 << 20
BAR_STEP_BYTES: Final = 64 << 10
"""Number of bytes after which the progress bar is updated."""
HELP = """Write records to a topic, one for each --value, else one for each line of FILE or of stdin, and wait until all are
acknowledged. Records with a key go to the partition that the Java producer would choose."""


@click.command("produce", help=HELP)
@click.argument("topic", metavar="TOPIC")
@click.argument("file", required=False, type=PATH, metavar="[FILE]")
@click.option("--value", "values", multiple=True, metavar="TEXT", help="Value of a record; repeatable.")
@click.option("--key", metavar="TEXT", help="Key of all records.")
@click.option("--key-separator", metavar="TEXT", help="Separator of key and value in a line.")
@click.option("--header", "headers", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Header of all records; repeatable.")
@click.option("--partition", type=PARTITION, metavar="P", help="Partition to write all records to (default: chosen by key).")
@encodes
@asks
def command(
    topic: str,
    file: Path | None,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    headers: tuple[tuple[str, str], ...],
    partition: int | None,
    schema: Path | None,
    registry: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.records.producing import TopicProducer
    from ottla.client.records.record import NewRecord

    if values and file is not None:
        raise click.UsageError("--value and FILE exclude each other; give one of them")
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator exclude each other; give one of them")
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty")
    encoded = [(name, _raw(value)) for name, value in headers]
    with cluster_at(bootstrap, timeout_s) as cluster:
        producer = TopicProducer(cluster.brokers, topic)
        encode = value_encoder(topic, schema, registry)
        for line in (_raw(value) for value in values) if values else _lines(file):
            record_key, value = _split(line, key, key_separator)
            producer.send(NewRecord(value=encode(value), key=record_key, headers=encoded, partition=partition))
        producer.flush()
    written = {index: count for index, count in producer.written.items() if count}
    if as_json:
        partitions = [{"partition": i, "records": n, "last_offset": producer.last_offsets.get(i)} for i, n in written.items()]
        show_json({"topic": topic, "records": sum(written.values()), "partitions": partitions})
    else:
        where = ", ".join(f"{count:,} to partition {index}" for index, count in written.items())
        total = sum(written.values())
        click.echo(
            f"{total:,} {'record was' if total == 1 else 'records were'} written to {topic}" + (f": {where}" if where else "")
        )


def _split(line: bytes, key: str | None, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None if key is None else _raw(key), line
    before, divider, after = line.partition(_raw(separator))
    if not divider:
        raise Refused(f"a line has no {separator!r} between key and value: {line[:60]!r}")
    return before, after


def _lines(file: Path | None) -> Iterator[bytes]:
    """Yield the lines of a file or of stdin without line ends."""
    if file is None:
        if sys.stdin.isatty():
            note("type one record per line; Ctrl-D ends the input")
        yield from _read(sys.stdin.buffer, "stdin")
        return
    try:
        with file.open("rb") as opened, progress(f"writing {file.name} (bytes)", file.stat().st_size) as advance:
            unseen_bytes = 0
            for line in _read(opened, str(file)):
                yield line
                unseen_bytes += len(line) + 1
                if unseen_bytes >= BAR_STEP_BYTES:
                    advance(unseen_bytes)
                    unseen_bytes = 0
    except OSError as error:
        raise Refused(f"cannot read {file}: {error.strerror}") from None


def _read(lines: IO[bytes], name: str) -> Iterator[bytes]:
    while line := lines.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise Refused(f"a line of {name} is longer than {MAX_LINE_BYTES >> 20} MiB")
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _raw(text: str) -> bytes:
    """Return the exact bytes of an argument, even if they are not valid UTF-8."""
    return text.encode("utf-8", "surrogateescape")
