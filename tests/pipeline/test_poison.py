"""Malformed input records: each becomes exactly one purchase or one dead letter."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from fastavro import parse_schema, schemaless_reader
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.pipeline.jobs import shop, totals
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASE, SHIPMENTS, Terms
from ottla.spark.errors import PipelineError
from ottla.spark.rows.rows import RECORD
from ottla.spark.schemas.dead_letters import check_limit, room
from ottla.spark.schemas.formats import AVRO, FORMATS, JSON, Format, avro_schema

pytestmark = [pytest.mark.full, pytest.mark.java]

HOUR_MS = 3_600_000
SOUND = {"id": 7, "user": "u", "product": "p", "quantity": 3, "price_cents": 150, "at_ms": HOUR_MS}
GOOD = JSON.pack(SOUND, PURCHASE)
GOOD_AVRO = AVRO.pack(SOUND, PURCHASE)
LONG_QUANTITY = PURCHASE.replace("quantity INT", "quantity LONG")
LARGEST = (1 << 63) - 1


def with_json(**fields: object) -> bytes:
    return json.dumps(SOUND | fields).encode()


def claiming(size: int) -> bytes:
    """Return an Avro value with a string of this length, but without the string's bytes."""
    number, varint = size << 1, bytearray()
    while number > 0x7F:
        varint.append(number & 0x7F | 0x80)
        number >>= 7
    return GOOD_AVRO[:2] + b"\x02" + bytes([*varint, number])


NOT_ONE = "the value is not one JSON object"
TWICE = "the value has a key twice in one object"
SURROGATE = "the value has half of a surrogate pair, which UTF-8 cannot encode"
BAD_JSON: dict[str, tuple[bytes | None, str]] = {
    "none": (None, "the value is null"),
    "empty": (b"", "the value is empty"),
    "two": (GOOD + GOOD, NOT_ONE),
    "two with a comma": (GOOD + b"," + GOOD, NOT_ONE),
    "behind a bracket": (GOOD + b"] x", NOT_ONE),
    "behind a brace": (GOOD + b"} x", NOT_ONE),
    "behind": (GOOD + b" x", NOT_ONE),
    "behind a zero": (GOOD + b"\0", NOT_ONE),
    "comment": (GOOD + b"//x", NOT_ONE),
    "cut off": (GOOD[:-1], NOT_ONE),
    "list": (b"[" + GOOD + b"]", NOT_ONE),
    "null": (b"null", NOT_ONE),
    "deep": (GOOD.replace(b"{", b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b",", 1), NOT_ONE),
    "very deep": (b"[" * 100_000, NOT_ONE),
    "not a number": (GOOD.replace(b"150", b"NaN"), NOT_ONE),
    "infinite": (GOOD.replace(b"150", b"-Infinity"), NOT_ONE),
    "2,000 digits": (GOOD.replace(b"150", b"1" * 2_000), NOT_ONE),
    "single quotes": (GOOD.replace(b'"', b"'"), NOT_ONE),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, NOT_ONE),
    "text that is no UTF-8": (GOOD.replace(b'"u"', b'"\xff"'), "the value is not UTF-8"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "the value is not UTF-8"),
    "half of a pair": (GOOD.replace(b'"u"', rb'"\ud800"'), SURROGATE),
    "the other half": (GOOD.replace(b'"u"', rb'"a\uDFFF\u0061"'), SURROGATE),
    "the halves the wrong way round": (GOOD.replace(b'"u"', rb'"\ude00\ud83d"'), SURROGATE),
    "half behind a pair": (GOOD.replace(b'"u"', rb'"\ud83d\ude00\uDBFF"'), SURROGATE),
    "half behind a backslash": (GOOD.replace(b'"u"', rb'"\\\ud800\\udc00"'), SURROGATE),
    "half where nobody reads it": (GOOD.replace(b"{", rb'{"x":"\udabc",', 1), SURROGATE),
    "half in a key": (GOOD.replace(b"{", rb'{"\ud800":1,', 1), SURROGATE),
    "key twice": (GOOD.replace(b"{", b'{"id": 9, ', 1), TWICE),
    "inner key twice": (GOOD.replace(b"{", b'{"x":{"y":1,"y":2}, ', 1), TWICE),
    "framed": (b"\0\0\0\1\2" + GOOD, "the value begins with a schema registry's header (schema 258)"),
    "text for LONG": (with_json(id="7"), "field id is missing or not of type LONG"),
    "fraction": (with_json(id=1.0), "field id is missing or not of type LONG"),
    "too many digits": (with_json(id=10**30), "field id is missing or not of type LONG"),
    "LONG for INT": (with_json(quantity=1 << 31), "field quantity is missing or not of type INT"),
    "boolean": (with_json(at_ms=True), "field at_ms is missing or not of type LONG"),
    "number for STRING": (with_json(user=5), "field user is not a STRING"),
    "object for STRING": (with_json(product={"a": 1}), "field product is not a STRING"),
    "null field": (with_json(user=None), "field user is missing or not of type STRING"),
    "nothing": (b"{}", "field id is missing or not of type LONG"),
}
NOT_AVRO = "the value is not one Avro record of the schema"
BAD_AVRO: dict[str, tuple[bytes | None, str]] = {
    "none": (None, "the value is null"),
    "empty": (b"", NOT_AVRO),
    "cut off": (GOOD_AVRO[:-2], NOT_AVRO),
    "behind": (GOOD_AVRO + b"x", NOT_AVRO),
    "two": (GOOD_AVRO + GOOD_AVRO, NOT_AVRO),
    "framed": (b"\0\0\0\0\5" + GOOD_AVRO, "the value begins with a schema registry's header (schema 5)"),
    "no such branch": (b"\x08" + GOOD_AVRO[1:], NOT_AVRO),
    "varint without end": (b"\x02" + b"\xff" * 20, NOT_AVRO),
    "LONG for INT": (AVRO.pack(SOUND | {"quantity": 1 << 40}, LONG_QUANTITY), NOT_AVRO),
    "text of no length": (GOOD_AVRO[:2] + b"\x02\x09", NOT_AVRO),
    "text of 600 MB": (claiming(600_000_000), NOT_AVRO),
    "text of 2 GB": (claiming((1 << 31) - 20), NOT_AVRO),
    "text of a TB": (claiming(1 << 40), NOT_AVRO),
    "text that is no UTF-8": (AVRO.pack(SOUND | {"user": "zz"}, PURCHASE).replace(b"zz", b"\xff\xfe"), "field user is not UTF-8"),
    "null field": (AVRO.pack(SOUND | {"user": None}, PURCHASE), "field user is missing or not of type STRING"),
}
BAD_FIELDS: dict[str, tuple[dict[str, object], str]] = {
    "nothing bought": ({"quantity": 0}, "field quantity is below 1"),
    "negative price": ({"price_cents": -1}, "field price_cents is below 0"),
    "overflow": ({"price_cents": 5 * 10**18}, "quantity times price_cents does not fit into a LONG"),
    "a far date": ({"at_ms": 9 * 10**18}, "field at_ms is no date of the years 1 to 9999"),
    "a far date of the past": ({"at_ms": -9 * 10**15}, "field at_ms is no date of the years 1 to 9999"),
    "the year 10000": ({"at_ms": 253_402_300_800_000}, "field at_ms is no date of the years 1 to 9999"),
    "in two hours": ({"at_ms": 3 * HOUR_MS}, "field at_ms is more than 3600000 ms ahead of the record's own time"),
}
FINE = {
    "spaces": b" \n" + GOOD + b"\r\n ",
    "more fields": with_json(more={"a": [1, {"b": None}]}),
    "at the border": with_json(at_ms=2 * HOUR_MS),
    "deep": GOOD.replace(b"{", b'{"x":' + b"[" * 900 + b"]" * 900 + b",", 1),
    "as much as can be": with_json(quantity=1, price_cents=LARGEST),
    "a pair of escapes": GOOD.replace(b'"u"', rb'"\ud83d\uDE00"'),
    "no escape": GOOD.replace(b'"u"', rb'"\\ud800"'),
    "other letters": json.dumps(SOUND | {"user": "\u00fc\U0001f600"}, ensure_ascii=False).encode(),
}


def records(spark: Any, values: list[bytes | None], headers: Any = None) -> Any:
    rows = [(b"k%d" % n, value, "purchases", 1, n, HOUR_MS // 1_000, 0, headers) for n, value in enumerate(values)]
    schema = RECORD.replace("timestamp TIMESTAMP", "timestamp LONG")
    return spark.createDataFrame(rows, schema).selectExpr("* EXCEPT (timestamp)", "timestamp_seconds(timestamp) AS timestamp")


def letters(rows: list[Any]) -> dict[int, tuple[bytes | None, str]]:
    """Return the value and the reason of each dead letter, by the offset of the original record."""
    by_offset: dict[int, tuple[bytes | None, str]] = {}
    for row in rows:
        headers = {h.key: bytes(h.value).decode() for h in row.headers}
        topic, at, offset = headers["ottla.source"].partition("@")
        assert (topic, at, headers["ottla.run"]) == ("purchases-1", "@", "r")
        assert bytes(row.key) == b"k" + offset.encode()
        assert int(offset) not in by_offset
        by_offset[int(offset)] = (None if row.value is None else bytes(row.value), headers["ottla.reason"])
    return by_offset


def check(spark: Any, bad: dict[str, tuple[bytes | None, str]], good: list[bytes], form: Format) -> None:
    values = [value for value, _ in bad.values()]
    rows = shop.transform(records(spark, [*values, *good]), "r", form).collect()
    found = letters([row for row in rows if row.topic == DEAD_LETTERS])
    assert {name: found.get(n) for n, name in enumerate(bad)} == bad
    assert len(found) == len(bad)
    for topic in (INVOICES, SHIPMENTS):
        assert sum(row.topic == topic for row in rows) == len(good)
    sums = totals.transform(records(spark, [*values, *good]), "r", form).collect()
    if good:
        assert sums


def test_each_poisoned_json_value_becomes_a_dead_letter_with_its_reason(spark: Any) -> None:
    fields = {f"field: {name}": (with_json(**given), reason) for name, (given, reason) in BAD_FIELDS.items()}
    check(spark, BAD_JSON | fields, list(FINE.values()), JSON)


def test_each_poisoned_avro_value_becomes_a_dead_letter_with_its_reason(spark: Any) -> None:
    fields = {f"field: {name}": (AVRO.pack(SOUND | given, PURCHASE), reason) for name, (given, reason) in BAD_FIELDS.items()}
    check(spark, BAD_AVRO | fields, [GOOD_AVRO], AVRO)


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """Return valid values in which a few bytes are replaced."""
    place = st.integers(0, len(good))
    return st.builds(lambda a, b, piece: good[: min(a, b)] + piece + good[max(a, b) :], place, place, st.binary(max_size=6))


LIMIT = 20_000
MOST = room(LIMIT)


def test_oversized_dead_letter_is_cut_but_names_its_source_offset(spark: Any) -> None:
    terms = Terms(limits={DEAD_LETTERS: LIMIT})
    own = [{"key": "ottla.reason", "value": b"of before"}, {"key": "trace", "value": None}, {"key": "trace", "value": b"\xff"}]
    many = [{"key": "h" * 90, "value": b"v" * 90}] * 100

    def letter(key: bytes | None, value: bytes | None, headers: Any) -> tuple[Any, Any, list[Any], dict[str, str]]:
        row = (key, value, "purchases", 1, 5, None, 0, headers)
        (out,) = shop.transform(spark.createDataFrame([row], RECORD), "r", terms=terms).collect()
        given = len(headers or ())
        ours = {h.key: bytes(h.value).decode() for h in out.headers if h.key.startswith("ottla.") and h.value != b"of before"}
        assert ours["ottla.source"] == "purchases-1@5"
        sizes = [len(x or b"") for x in (out.key, out.value)] + [len(h.key) + len(h.value or b"") + 10 for h in out.headers]
        assert sum(sizes) <= LIMIT - 128
        kept = out.headers[: len(out.headers) - len(ours)]
        assert len(kept) in (0, given)
        return out.key, out.value, [h.asDict() for h in kept], ours

    key, value, kept, ours = letter(b"k", b"{" * 15_000, own)
    assert (key, value, kept, "ottla.cut" in ours) == (b"k", b"{" * 15_000, own, False)
    key, value, kept, ours = letter(b"k", b"{" * 100_000, own)
    assert (key, kept, ours["ottla.cut"]) == (b"k", own, "value of 100000 bytes")
    assert value == b"{" * len(value) and len(value) > MOST - 200
    key, value, kept, ours = letter(b"k" * 50_000, b"{" * 100_000, many)
    assert (key, kept) == (b"k" * (MOST // 4), [])
    assert ours["ottla.cut"] == "key of 50000 bytes, value of 100000 bytes, 100 headers of 19000 bytes"
    key, value, kept, ours = letter(b"k" * 50_000, None, None)
    assert (len(key), value, ours["ottla.reason"]) == (MOST // 4, None, "the value is null")


def test_purchase_with_an_oversized_invoice_becomes_a_dead_letter(spark: Any) -> None:
    values: list[bytes | None] = [with_json(user="u" * LIMIT), GOOD]
    rows = shop.transform(records(spark, values), "r", terms=Terms(limits={INVOICES: LIMIT})).collect()
    assert [row.topic for row in rows] == [DEAD_LETTERS, INVOICES, SHIPMENTS]
    assert letters(rows[:1])[0][1] == f"the invoice is too large for topic {INVOICES}, which accepts {LIMIT} bytes"


def test_dead_letter_topic_with_too_small_max_message_bytes_is_refused() -> None:
    check_limit(DEAD_LETTERS, 4_096)
    with pytest.raises(
        PipelineError, match=r"accepts batches of at most 4,095 bytes \(max.message.bytes\), but dead letters need 4,096"
    ):
        check_limit(DEAD_LETTERS, 4_095)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@settings(max_examples=6)
@given(data=st.data())
def test_shop_transform_accepts_random_bytes_as_values(spark: Any, form: Format, data: st.DataObject) -> None:
    good = form.pack(SOUND, PURCHASE)
    values = data.draw(st.lists(st.none() | st.binary(max_size=80) | damaged(good) | st.text().map(str.encode), min_size=60))
    rows = shop.transform(records(spark, values), "r", form).collect()
    found = letters([row for row in rows if row.topic == DEAD_LETTERS])
    assert {offset: value for offset, (value, _) in found.items()} == {n: values[n] for n in found}
    others = [
        [int(bytes(h.value).partition(b"@")[2]) for row in rows if row.topic == topic for h in row.headers if h.key == "source"]
        for topic in (INVOICES, SHIPMENTS)
    ]
    for offsets in others:
        assert sorted([*offsets, *found]) == list(range(len(values)))
    for offset in others[0]:
        check_is_a_purchase(form, values[offset])
    totals.transform(records(spark, values), "r", form).collect()


def check_is_a_purchase(form: Format, value: bytes | None) -> None:
    """Parse the value with a reader other than Spark's."""
    assert value is not None
    if form is AVRO:
        assert value == AVRO.pack(read_avro(value), PURCHASE)
        return

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    read = json.loads(value.decode(), object_pairs_hook=once, parse_constant=pytest.fail)
    assert {name: type(read[name]) for name in SOUND} == {name: type(SOUND[name]) for name in SOUND}


def read_avro(value: bytes) -> Any:
    return schemaless_reader(io.BytesIO(value), parse_schema(json.loads(avro_schema(PURCHASE))), None)


def test_totals_job_continues_with_a_null_amount_after_an_overflow(spark: Any) -> None:
    large = with_json(quantity=1, price_cents=LARGEST)
    (row,) = totals.summed(records(spark, [large, large])).collect()
    assert (row.purchases, row.quantity, row.amount_cents) == (2, 2, None)


def test_spark_plan_parses_each_record_value_once_per_format(spark: Any) -> None:
    """A value is parsed once as a struct and once as a variant, and not again for each use of a field."""
    for frame in (shop.transform(records(spark, [GOOD]), "r"), totals.transform(records(spark, [GOOD]), "r")):
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert (plan.count("from_json("), plan.count("try_parse_json(") + plan.count("parseJson")) == (1, 1), plan
