"""A record as a page shows it: shortened and decoded, and as an ``ottla produce`` command; the page ``record``."""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import Any, Final

from ottla.client.admin.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.cluster import BrokerConnections
from ottla.client.records.record import ConsumedRecord
from ottla.console.actions.action import command_line
from ottla.console.actions.produce_arguments import produce_arguments
from ottla.console.decoding import AUTO, CHOICES, INSPECTED_BYTES, Decoded, RegisteredValues, decode, decode_internal, json_text
from ottla.console.outcomes import outcomes
from ottla.console.page_request import Asked
from ottla.console.search import Search
from ottla.control.command import CommandRefused
from ottla.protocol.topic_partition import MAX_PARTITION

CHARACTERS_SHOWN: Final = 1_000
"""Maximum number of characters shown for a key or a value in a list."""
HEADERS_SHOWN: Final = 20
HEADER_CHARACTERS_SHOWN: Final = 200
RECORD_CHARACTERS_SHOWN: Final = 300_000
"""Maximum number of characters of a value on the page of one record. JSON may need six bytes for each character, and
`MAX_EVENT_BYTES` limits the page."""
RECORD_HEADERS_SHOWN: Final = 100


def formats_of(asked: Asked) -> tuple[str, str]:
    """Return the formats that the query selects for keys and values. Raises `CommandRefused`."""
    forms = asked.query.get("as_key") or AUTO, asked.query.get("as_value") or AUTO
    for form in forms:
        if form not in CHOICES:
            raise CommandRefused(400, f"a format must be one of {', '.join(CHOICES)}")
    return forms


def record(asked: Asked) -> dict[str, Any]:
    """Return one record, with up to `RECORD_CHARACTERS_SHOWN` characters of its value. Raises `CommandRefused`."""
    topic, index, offset = asked.required("topic"), asked.number("partition"), asked.number("offset")
    forms = formats_of(asked)
    if index > MAX_PARTITION or index >= asked.view.topic(topic).partitions:
        raise CommandRefused(404, f"topic {topic!r} has no partition {index}")
    brokers = asked.client().brokers
    identity = _log_identity(brokers, topic, index)
    first = list_offsets(brokers, topic, [index], EARLIEST)[index]
    end = list_offsets(brokers, topic, [index], LATEST)[index]
    stable = list_offsets(brokers, topic, [index], LATEST, committed=True)
    if not first <= offset < end:
        raise CommandRefused(404, f"{topic}-{index} has no offset {offset:,}: it has {first:,} to {end - 1:,}")

    def read() -> dict[str, Any]:
        search = Search(
            brokers,
            topic,
            "all",
            {index: (offset, offset + 1)},
            newest_first=False,
            matches=lambda one: True,
            check=asked.deadline.check,
        )
        with asked.deadline.alone():
            found = search.run(1)
            found_outcomes = outcomes(brokers, topic, "all", found, stable, {index: end}, asked.deadline.check)
        if not found:
            reason = "; ".join(search.problems) or "compaction has removed it"
            raise CommandRefused(404, f"{topic}-{index} has no record at offset {offset:,}: {reason}")
        command, problem = produce_command(found[0], asked.client().brokers.bootstrap)
        return {
            "topic": topic,
            **shown(found[0], *forms, most=RECORD_CHARACTERS_SHOWN, headers=RECORD_HEADERS_SHOWN, registered=asked.registered),
            "outcome": found_outcomes.get((index, offset)),
            "log_start_offset": first,
            "high_watermark": end,
            "command": command,
            "command_problem": problem,
        }

    # Retention may remove the record. A record above the last stable offset is read again when the partition grows, because a
    # marker may have ended its transaction.
    return asked.last_read.get((identity, first, None if offset < stable[index] else end), read)


def _log_identity(brokers: BrokerConnections, topic: str, index: int) -> tuple[bytes, int]:
    """Return topic id and leader epoch. While both stay the same, the record at an offset cannot change."""
    metadata = brokers.until_final(f"asking for topic {topic!r}", lambda: brokers.metadata([topic]))
    described = brokers.topic_of(metadata, topic)
    return described.topic_id, next((p.leader_epoch for p in described.partitions if p.partition_index == index), -1)


def shown(
    record: ConsumedRecord,
    as_key: str = AUTO,
    as_value: str = AUTO,
    *,
    most: int = CHARACTERS_SHOWN,
    headers: int = HEADERS_SHOWN,
    registered: RegisteredValues | None = None,
) -> dict[str, Any]:
    key, value = _bytes(record.key, as_key, most, registered), _bytes(record.value, as_value, most, registered)
    if (as_key, as_value) == (AUTO, AUTO) and record.control is None:
        is_small = len(record.key or b"") + len(record.value or b"") <= INSPECTED_BYTES
        internal = decode_internal(record.topic, record.key, record.value) if is_small else None
        if internal is not None:
            parts = {name: part for name, part in internal.items() if name != "value"}
            found = Decoded(kind="internal", text=json_text(parts), is_json=True)
            key = None if record.key is None else _cut(found, len(record.key), most)
            if value is not None and "value" in internal:
                of_value = Decoded(kind="internal", text=json_text(internal["value"]), is_json=True)
                value = _cut(of_value, len(record.value or b""), most)
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": key,
        "value": value,
        "headers": [
            {"name": name[:HEADER_CHARACTERS_SHOWN], "value": _bytes(data, AUTO, HEADER_CHARACTERS_SHOWN)}
            for name, data in record.headers[:headers]
        ],
        "more_headers": max(0, len(record.headers) - headers),
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "is_transactional": record.transactional,
        "control": record.control,
    }


def _bytes(data: bytes | None, form: str, most: int, registered: RegisteredValues | None = None) -> dict[str, Any] | None:
    """Decode bytes for display; None for null. If there are too many bytes to decode, only the first are shown."""
    if data is None:
        return None
    if len(data) > INSPECTED_BYTES:
        # Remove an incomplete character at the end, with which the text would be shown in hexadecimal.
        beginning = data[:most].decode("utf-8", "ignore").encode() if _is_text(data[:most]) else data[:most]
        found = decode(beginning, "hex" if form == "hex" else AUTO)
        return {**_cut(found, len(data), most), "is_cut": True, "is_json": False}
    return _cut(decode(data, form, registered), len(data), most)


def _is_text(data: bytes) -> bool:
    try:
        getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _cut(found: Decoded, size_bytes: int, most: int) -> dict[str, Any]:
    is_cut = len(found.text) > most
    return {
        "kind": found.kind,
        "text": found.text[:most],
        "is_json": found.is_json and not is_cut,
        "is_cut": is_cut,
        "size_bytes": size_bytes,
        "problem": found.problem,
    }


def produce_command(record: ConsumedRecord, bootstrap: str) -> tuple[str, str]:
    """Return the ``ottla produce`` command that writes a record again, or an empty text and why no command can."""
    if record.control is not None:
        return "", "a marker is written by the transaction coordinator only"
    arguments, problem = produce_arguments(record.topic, record.key, record.value, record.headers, record.partition)
    return ("" if problem else command_line(arguments, ["--bootstrap", bootstrap])), problem
