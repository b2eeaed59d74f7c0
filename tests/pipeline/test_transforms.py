"""The jobs' transformations on rows in memory: without a broker, and with one shared Spark session."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.testing import assertDataFrameEqual

from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.jobs import shop, totals
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICE, INVOICES, PURCHASE, SHIPMENT, SHIPMENTS, TOTAL, TOTALS
from ottla.spark.rows.rows import RECORD
from ottla.spark.schemas.formats import AVRO, FORMATS, JSON, Format

pytestmark = [pytest.mark.full, pytest.mark.java]

HOUR_MS = 3_600_000
SOUND = {"id": 7, "user": "u", "product": "p", "quantity": 2, "price_cents": 150, "at_ms": HOUR_MS}
OUT = "topic STRING, key STRING, value STRING, run STRING, source STRING"


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Format:
    return FORMATS[request.param]


def records(spark: Any, *values: bytes | dict[str, Any] | None, form: Format = JSON) -> Any:
    packed = [form.pack(v, PURCHASE) if isinstance(v, dict) else v for v in values]
    return spark.createDataFrame([(b"k", v, "purchases", 1, n, None, 0, []) for n, v in enumerate(packed)], RECORD)


def readable(frame: Any) -> Any:
    header = "CAST(get(filter(headers, h -> h.key = '{}'), 0).value AS STRING) AS {}"
    return frame.selectExpr(
        "topic", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value", *(header.format(n, n) for n in ("run", "source"))
    )


def test_purchase_becomes_an_invoice_and_a_shipment(spark: Any) -> None:
    expected = [
        (INVOICES, "7", '{"purchase":7,"user":"u","amount_cents":300,"at_ms":3600000}', "r", "purchases-1@0"),
        (SHIPMENTS, "7", '{"purchase":7,"user":"u","product":"p","quantity":2}', "r", "purchases-1@0"),
    ]
    assertDataFrameEqual(readable(shop.transform(records(spark, SOUND), "r")), spark.createDataFrame(expected, OUT))


def test_invalid_purchase_becomes_an_unchanged_dead_letter(spark: Any) -> None:
    spoilt: list[bytes | None] = [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        None,
        *(json.dumps({k: v for k, v in SOUND.items() if k != name}).encode() for name in SOUND),
        json.dumps(SOUND | {"quantity": 0}).encode(),
        json.dumps(SOUND | {"quantity": "many"}).encode(),
        json.dumps(SOUND | {"price_cents": -1}).encode(),
        json.dumps(SOUND | {"id": None}).encode(),
    ]
    rows = shop.transform(records(spark, *spoilt), "r").select("topic", "key", "value").collect()
    assert {row.topic for row in rows} == {DEAD_LETTERS}
    assert [row.value for row in rows] == spoilt
    assert {bytes(row.key) for row in rows} == {b"k"}


def test_avro_and_json_purchases_give_the_same_invoices_and_shipments(spark: Any) -> None:
    def values(form: Format, schema: str, frame: Any) -> Any:
        return frame.select(form.read(frame.value, schema).alias("v")).select("v.*")

    rows = [SOUND, SOUND | {"user": None}, SOUND | {"id": 8, "user": "\u00fc", "at_ms": -1}]
    out = {form.name: shop.transform(records(spark, *rows, form=form), "r", form).cache() for form in (JSON, AVRO)}
    for topic, schema, count in ((INVOICES, INVOICE, 2), (SHIPMENTS, SHIPMENT, 2)):
        by_json = values(JSON, schema, out["json"].where(f"topic = '{topic}'"))
        assert by_json.count() == count
        assertDataFrameEqual(values(AVRO, schema, out["avro"].where(f"topic = '{topic}'")), by_json)
    (letter,) = out["avro"].where(f"topic = '{DEAD_LETTERS}'").collect()
    assert letter.value == AVRO.pack(rows[1], PURCHASE)
    sums = [values(form, TOTAL, totals.transform(records(spark, *rows, form=form), "r", form)) for form in (JSON, AVRO)]
    assertDataFrameEqual(*sums)


def test_purchase_generator_and_shop_transform_agree_on_valid_purchases(spark: Any, form: Format) -> None:
    made = list(purchases(Workload(1_000, malformed_share=0.3), form))
    sound = shop.parsed(records(spark, *(row.value for row in made)), form).select(shop.is_sound().alias("ok")).collect()
    assert [row.ok for row in sound] == [row.is_sound for row in made]


def test_purchase_totals_are_grouped_by_hour(spark: Any) -> None:
    rows = [
        SOUND,
        SOUND | {"id": 8, "at_ms": 2 * HOUR_MS - 1},
        SOUND | {"id": 9, "at_ms": 2 * HOUR_MS},
        SOUND | {"user": "v"},
        b"{",
    ]
    expected = [(HOUR_MS, "u", "p", 2, 4, 600), (2 * HOUR_MS, "u", "p", 1, 2, 300), (HOUR_MS, "v", "p", 1, 2, 300)]
    schema = "window_ms LONG, user STRING, product STRING, purchases LONG, quantity LONG, amount_cents LONG"
    assertDataFrameEqual(totals.summed(records(spark, *rows)), spark.createDataFrame(expected, schema), ignoreNullable=True)
    (first, *_) = readable(totals.transform(records(spark, SOUND), "r")).collect()
    value = '{"window_ms":3600000,"user":"u","product":"p","purchases":1,"quantity":2,"amount_cents":300}'
    assert (first.topic, first.key, first.value, first.run) == (TOTALS, "u|p|3600000", value, "r")
