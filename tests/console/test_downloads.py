"""Downloads of records as JSON lines and CSV, their limits, and values that a spreadsheet would evaluate as formulas."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import Any

import pytest

from ottla.client.kafka_client import KafkaClient
from ottla.client.records.documents import COLUMNS, csv_line, csv_row, formatted
from ottla.console import download as download_page
from ottla.console import search
from ottla.console.download import download
from tests.client.records.test_reading import OnePartition, batch
from tests.client.scripted import ScriptedCluster
from tests.console.asking import asked_with
from tests.console.test_limits import OneTopic
from tests.support.consumed import consumed


def events(log: OnePartition, **query: str) -> list[tuple[str, Any]]:
    client = KafkaClient("kafka:9092", connect=ScriptedCluster(kafka=log.broker).connect)
    asked = asked_with({"topic": "t", "isolation": "all", "order": "oldest", **query}, view=OneTopic(), client=client)
    found = []
    for event in download(asked):
        name, data = event.decode().strip().split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def file_of(found: list[tuple[str, Any]]) -> str:
    return "".join(part for name, part in found if name == "part")


def many() -> OnePartition:
    log = [batch(0, b"plain", b"\xff\x00", b'{"a": 1}'), batch(3, b"\x81\xa1a\x07", b"=1+1", b'line\n"quoted", end')]
    return OnePartition(log=log, end=6, stable=6)


def test_json_lines_download_has_all_records_with_the_format_of_each_value() -> None:
    found = events(many())
    lines = [json.loads(line) for line in file_of(found).splitlines()]
    assert [line["offset"] for line in lines] == [0, 1, 2, 3, 4, 5]
    assert [line["value"] for line in lines] == [
        "plain",
        {"base64": base64.b64encode(b"\xff\x00").decode()},
        '{"a": 1}',
        '{"a":7}',
        "=1+1",
        'line\n"quoted", end',
    ]
    assert [line.get("value_format") for line in lines] == [None, None, None, "msgpack", None, None]
    assert found[-1] == ("done", {"records": 6, "limit": "", "problems": []})


def test_csv_download_has_a_column_with_the_format_of_each_value() -> None:
    rows = list(csv.DictReader(io.StringIO(file_of(events(many(), format="csv")))))
    assert [(row["value"], row["value_format"]) for row in rows] == [
        ("plain", "text"),
        (base64.b64encode(b"\xff\x00").decode(), "base64"),
        ('{"a": 1}', "text"),
        ('{"a":7}', "msgpack"),
        ("'=1+1", "text"),
        ('line\n"quoted", end', "text"),
    ]
    assert {(row["topic"], row["partition"]) for row in rows} == {("t", "0")}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'quoted", "'=1"])
def test_csv_download_has_no_values_that_are_evaluated_as_formulas(text: str) -> None:
    record = consumed(topic="-topic", key=text.encode(), value=text.encode())
    line = csv_line(csv_row(record, formatted(record.key), formatted(record.value)))
    row = dict(zip(COLUMNS, next(csv.reader(io.StringIO(line, newline=""))), strict=True))
    assert row["key"] == row["value"] == f"'{text}"
    assert row["topic"] == "'-topic"


def test_null_and_empty_values_of_a_download_differ_in_their_format() -> None:
    for value, expected in ((None, ("", "")), (b"", ("", "text"))):
        assert tuple(formatted(value)) == expected


def test_record_download_has_the_filtered_records_in_the_order_of_the_page() -> None:
    found = events(many(), order="newest", filter="value~a|=")
    offsets = [json.loads(line)["offset"] for line in file_of(found).splitlines()]
    assert offsets == [4, 3, 2, 0]


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("at_once", [1, 2, 7, 100])
def test_record_download_has_every_record_once(order: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_page, "RECORDS_AT_ONCE", at_once)
    monkeypatch.setattr(search, "OFFSETS_SEARCHED", 5)
    monkeypatch.setattr(search, "FIRST_CHUNK", 3)
    log = [batch(0, *[b"x"] * 5), batch(5, *[b"y"] * 30), batch(40, b"after a gap"), batch(41, *[b"z"] * 9)]
    found = events(OnePartition(log=log, end=50, stable=50, at_once=3), order=order)
    offsets = [json.loads(line)["offset"] for line in file_of(found).splitlines()]
    expected = [*range(35), *range(40, 50)]
    assert offsets == (expected if order == "oldest" else expected[::-1])
    assert found[-1][1]["limit"] == ""


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("DOWNLOAD_RECORDS", 2, "2 records"),
        ("DOWNLOAD_BYTES", 1 << 20, "1 MiB"),
        ("DOWNLOAD_OFFSETS", 1, "1 offsets searched"),
    ],
)
def test_record_download_names_the_limit_that_ended_it(name: str, value: int, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_page, name, value)
    monkeypatch.setattr(download_page, "RECORDS_AT_ONCE", 2)
    log = [batch(0, b"x" * 600_000, b"y" * 600_000, b"z")]
    found = events(OnePartition(log=log, end=3, stable=3))
    assert found[-1] == ("done", {"records": 2, "limit": limit, "problems": []})


def test_record_download_that_fits_a_limit_exactly_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_page, "DOWNLOAD_RECORDS", 6)
    assert events(many())[-1][1] == {"records": 6, "limit": "", "problems": []}


@pytest.mark.parametrize("query", [{"format": "xml"}, {"filter": "value$["}, {"from": "yesterday"}, {"isolation": "x"}])
def test_invalid_queries_for_a_record_download_are_refused(query: dict[str, str]) -> None:
    found = events(many(), **query)
    assert [name for name, _ in found] == ["refused"]
    assert found[0][1]["status"] == 400
