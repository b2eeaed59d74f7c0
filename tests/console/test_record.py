"""A record as a page shows it, and the command that would write the same record."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from ottla.client.records.record import ConsumedRecord
from ottla.console.decoding import INSPECTED_BYTES
from ottla.console.shown_record import produce_command, shown
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from tests.support.consumed import consumed


def made(
    value: bytes | None = b"v", key: bytes | None = None, headers: list[tuple[str, bytes | None]] | None = None, topic: str = "t"
) -> ConsumedRecord:
    return consumed(topic=topic, offset=5, timestamp_ms=1, key=key, value=value, headers=headers or [])


@pytest.mark.parametrize(
    "value", [b"", b"plain", b'it\'s \\ "quoted" $HOME `x`', "größer\n".encode(), b"\xff\x01'\\", b"-x", b"\n"]
)
def test_command_on_the_console_record_page_has_the_exact_bytes_of_the_record(value: bytes) -> None:
    command, problem = produce_command(made(value, key=value, headers=[("a b", b"c=d")]), "127.0.0.1:1")
    assert problem == ""
    script = f"ottla() {{ printf '%s\\0' \"$@\"; }}; {command}"
    arguments = subprocess.run(["bash", "-c", script], check=True, capture_output=True).stdout.split(b"\0")[:-1]
    given = [[b"--key=" + value], [b"--value=" + value]] if value.startswith(b"-") else [[b"--key", value], [b"--value", value]]
    assert arguments[:-7] == [b"produce", *given[0], *given[1]]
    assert arguments[-7:] == [b"--header", b"a b=c=d", b"--partition", b"2", b"t", b"--bootstrap", b"127.0.0.1:1"]


def test_command_on_the_console_record_page_of_a_tombstone_has_no_value() -> None:
    command = "ottla produce --key k --null-value --partition 2 t --bootstrap 127.0.0.1:1"
    assert produce_command(made(None, key=b"k"), "127.0.0.1:1") == (command, "")


@pytest.mark.parametrize(
    "record",
    [
        made(None),
        made(b"\0"),
        made(b"x" * 200_000),
        made(headers=[("a", None)]),
        made(headers=[("a=b", b"")]),
        made(headers=[("a", b" x")]),
        made(headers=[("", b"x")]),
    ],
)
def test_console_record_page_explains_why_no_command_can_write_the_record(record: ConsumedRecord) -> None:
    command, problem = produce_command(record, "127.0.0.1:1")
    assert command == ""
    assert problem


def test_console_record_page_shortens_a_large_value() -> None:
    for beginning in (b'{"a": "', "ä".encode() * 700):
        value = shown(made(beginning + b"x" * (50 * INSPECTED_BYTES)))["value"]
        assert (value["kind"], value["is_cut"], value["is_json"]) == ("text", True, False)
        assert len(value["text"]) <= 1_000
    assert shown(made(b"\xff" * (2 * INSPECTED_BYTES)))["value"]["kind"] == "hex"


def test_console_record_page_does_not_parse_shortened_json() -> None:
    value = shown(made(b"[" + b"1," * 1_000 + b"1]"))["value"]
    assert (value["kind"], value["is_cut"], value["is_json"]) == ("json", True, False)


def test_console_record_page_shows_key_and_value_in_separate_formats() -> None:
    page = shown(made(b"12", key=b"\0\0\0\1"), "int", "hex")
    assert (page["key"]["text"], page["value"]["text"]) == ("1", "31 32")


def test_console_record_page_decodes_a_record_of_an_internal_topic() -> None:
    page = shown(made(None, key=b"\0\x63group", topic=OFFSETS_TOPIC))
    assert msgspec.json.decode(page["key"]["text"]) == {"undecodable": "unknown record type 99"}
