"""``ottla produce``: writes lines as records."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from ottla.cli.commands import Refused
from ottla.cli.options import KEY_VALUE, PARTITION, PATH, asks, cluster_at
from ottla.cli.output import note, progress, show_json
from ottla.cli.registry_values import encodes, refuse_unused_registry, value_encoder, version_encoder

if TYPE_CHECKING:
    from ottla.client.records.producing import TopicProducer

MAX_LINE_BYTES: Final = 16 << 20
BAR_STEP_BYTES: Final = 64 << 10
"""Number of bytes after which the progress bar is updated."""
HELP = """Write records to a topic, one for each --value, else one for each line of FILE or of stdin, and wait until all are
acknowledged. Records with a key go to the partition that the Java producer would choose.

With --key-field each line is a JSON object (JSON Lines). The record's value is the whole line; blank lines are skipped."""


@click.command("produce", help=HELP)
@click.argument("topic", metavar="TOPIC")
@click.argument("file", required=False, type=PATH, metavar="[FILE]")
@click.option("--file", "named_file", type=PATH, metavar="FILE", help="File with one record per line; the same as FILE.")
@click.option("--value", "values", multiple=True, metavar="TEXT", help="Value of a record; repeatable.")
@click.option("--key", metavar="TEXT", help="Key of all records.")
@click.option("--key-separator", metavar="TEXT", help="Separator of key and value in a line.")
@click.option("--key-field", metavar="NAME", help="Member of the line's JSON object that becomes the key; a.b for a nested member.")
@click.option("--header", "headers", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Header of all records; repeatable.")
@click.option("--partition", type=PARTITION, metavar="P", help="Partition to write all records to (default: chosen by key).")
@click.option("--null-value", "is_tombstone", is_flag=True, help="Write one tombstone: a record with --key and without a value.")
@click.option(
    "--transactional-id",
    metavar="ID",
    help="Write all records in one transaction of this id, which fences its current producer, and commit the transaction.",
)
@click.option(
    "--abort", "is_aborted", is_flag=True, help="With --transactional-id, abort the transaction after the records are written."
)
@encodes
@asks
def command(
    topic: str,
    file: Path | None,
    named_file: Path | None,
    values: tuple[str, ...],
    key: str | None,
    key_separator: str | None,
    key_field: str | None,
    headers: tuple[tuple[str, str], ...],
    partition: int | None,
    is_tombstone: bool,
    transactional_id: str | None,
    is_aborted: bool,
    schema: Path | None,
    key_schema: tuple[str, int | None] | None,
    value_schema: tuple[str, int | None] | None,
    registry: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.records.producing import TopicProducer
    from ottla.client.records.record import NewRecord
    from ottla.client.records.transactional_producer import transaction_of

    file = _file(file, named_file)
    _check_values(key, is_tombstone=is_tombstone, has_values=bool(values), has_file=file is not None)
    _check_keys(key, key_separator, key_field)
    if is_aborted and transactional_id is None:
        raise click.UsageError("--abort ends a transaction; give --transactional-id as well")
    has_key = key is not None or key_separator is not None or key_field is not None
    _check_schemas(schema, value_schema, key_schema, has_key=has_key, is_tombstone=is_tombstone)
    encoded = [(name, _raw(value)) for name, value in headers]
    lines = [] if is_tombstone else (_raw(value) for value in values) if values else _lines(file)
    with (
        cluster_at(bootstrap, timeout_s) as cluster,
        transaction_of(cluster.brokers, transactional_id, commit=not is_aborted) as transaction,
    ):
        encode_key = version_encoder("key", key_schema, registry)
        encode = value_encoder(topic, schema, registry) if schema is not None else version_encoder("value", value_schema, registry)
        producer = TopicProducer(cluster.brokers, topic, producer=transaction)
        if is_tombstone:
            producer.send(NewRecord(value=None, key=encode_key(_raw(key or "")), headers=encoded, partition=partition))
        try:
            for record_key, value in _pairs(lines, key, key_separator, key_field):
                encoded_key = None if record_key is None else encode_key(record_key)
                producer.send(NewRecord(value=encode(value), key=encoded_key, headers=encoded, partition=partition))
        except _LineRefused as refused:
            if transaction is not None:
                raise Refused(f"{refused.message}; the transaction was aborted") from None
            producer.flush()
            raise Refused(refused.message + ("; the lines before it were written" if refused.number > 1 else "")) from None
        producer.flush()
    _show(producer, topic, is_aborted=is_aborted, as_json=as_json)


class _LineRefused(Exception):
    """A line of the input has no key."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.message, self.number = message, number


def _pairs(
    lines: Iterable[bytes], key: str | None, key_separator: str | None, key_field: str | None
) -> Iterator[tuple[bytes | None, bytes]]:
    """Yield key and value of each line. Raises `_LineRefused`."""
    for number, line in enumerate(lines, 1):
        if key_field is not None and not line.strip():
            continue
        try:
            pair = _split(line, key, key_separator) if key_field is None else (_key_of(line, key_field, f"line {number}"), line)
        except Refused as refused:
            raise _LineRefused(refused.message, number) from None
        yield pair


def _file(file: Path | None, named_file: Path | None) -> Path | None:
    if file is not None and named_file is not None:
        raise click.UsageError("FILE and --file exclude each other; give one of them")
    return named_file or file


def _check_keys(key: str | None, key_separator: str | None, key_field: str | None) -> None:
    keys = {"--key": key, "--key-separator": key_separator, "--key-field": key_field}
    given = [name for name, text in keys.items() if text is not None]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    if key_separator == "" or key_field == "":
        raise click.UsageError(f"{given[0]} must not be empty")


def _check_values(key: str | None, *, is_tombstone: bool, has_values: bool, has_file: bool) -> None:
    if has_values and has_file:
        raise click.UsageError("--value and FILE exclude each other; give one of them")
    if is_tombstone and (key is None or has_values or has_file):
        raise click.UsageError("--null-value writes one record with --key, and excludes --value and FILE")


def _check_schemas(schema: Path | None, value_schema: object, key_schema: object, *, has_key: bool, is_tombstone: bool) -> None:
    if schema is not None and value_schema is not None:
        raise click.UsageError("--schema and --value-schema exclude each other; give one of them")
    of_value = "--schema" if schema is not None else "--value-schema" if value_schema is not None else ""
    if is_tombstone and of_value:
        raise click.UsageError(f"--null-value and {of_value} exclude each other; give one of them")
    if key_schema is not None and not has_key:
        raise click.UsageError("--key-schema encodes keys; give --key, --key-separator or --key-field as well")
    is_used = bool(of_value) or key_schema is not None
    refuse_unused_registry(is_needed=is_used, use="encoded records; give --schema, --value-schema or --key-schema as well")


def _show(producer: TopicProducer, topic: str, *, is_aborted: bool, as_json: bool) -> None:
    written = {index: count for index, count in producer.written.items() if count}
    if as_json:
        partitions = [{"partition": i, "records": n, "last_offset": producer.last_offsets.get(i)} for i, n in written.items()]
        show_json({"topic": topic, "records": sum(written.values()), "partitions": partitions})
    else:
        where = ", ".join(f"{count:,} to partition {index}" for index, count in written.items())
        total = sum(written.values())
        click.echo(
            f"{total:,} {'record was' if total == 1 else 'records were'} written to {topic}"
            + (f": {where}" if where else "")
            + ("; the transaction was aborted" if is_aborted else "")
        )


def _split(line: bytes, key: str | None, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None if key is None else _raw(key), line
    before, divider, after = line.partition(_raw(separator))
    if not divider:
        raise Refused(f"a line has no {separator!r} between key and value: {line[:60]!r}")
    return before, after


def _key_of(line: bytes, field: str, where: str) -> bytes:
    """Return the text of a JSON object's member as key: a string as it is, and any other value as JSON. Raises `Refused`."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(f"{where} is not a JSON object: {line[:60]!r}")
    for name in [field] if field in found else field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        raise Refused(f"{where} has no {field!r} for the key: {line[:60]!r}")
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _lines(file: Path | None) -> Iterator[bytes]:
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
