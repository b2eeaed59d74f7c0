"""Tests of the jobs' transformations on static frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import NOW_MS, texts
from pyspark.sql import DataFrame
from shop.inputs import MINUTE_MS, Input, products_of
from shop.jobs.distinct import distinct
from shop.jobs.invoices import enriched
from shop.jobs.job import SINK
from shop.jobs.revenue import revenue
from shop.jobs.settlements import settlements
from shop.lateness import kept
from shop.schemas import CLEAN_ORDERS, INVOICE, INVOICES, ORDER, ORDERS, PAYMENT, PAYMENTS
from shop.settings import Settings

NEVER = -1
HOUR_MS = 60 * MINUTE_MS
WINDOW_MS = NOW_MS // HOUR_MS * HOUR_MS


def order(number: int, **other: Any) -> dict[str, Any]:
    made = {"id": f"o-{number}", "customer": "ann", "product": "p-pan", "quantity": 2, "cents": 500, "at_ms": NOW_MS + number}
    return {**made, **other}


def test_repeated_orders_are_written_once(given: Callable[..., Input], settings: Settings) -> None:
    orders = given(ORDERS, ORDER, order(1), order(2), order(1), order(1, at_ms=NOW_MS + 5))
    rows = kept(distinct(orders, settings), NEVER)
    assert [(topic, key, value["at_ms"] - NOW_MS) for topic, key, value, _ in texts(rows)] == [
        ("clean-orders", "o-1", 1),
        ("clean-orders", "o-1", 5),
        ("clean-orders", "o-2", 2),
    ]


def test_late_orders_go_to_a_topic_of_their_own(given: Callable[..., Input], settings: Settings) -> None:
    """A static frame has no watermark, so no row is dropped, but `DEADLINE` shows which rows a watermark would drop."""
    rows = distinct(given(ORDERS, ORDER, order(1), order(2), order(3)), settings)
    late = [(key, headers) for topic, key, _, headers in texts(kept(rows, NOW_MS + 2)) if topic == "late-orders"]
    assert late == [("o-1", {"shop.source": "orders-0@0"}), ("o-2", {"shop.source": "orders-0@1"})]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe", ""),
        (b'{"id": "o-1"', ""),
        (order(1, quantity="many"), "quantity"),
        ({"id": "o-1"}, ""),
        (None, ""),
        (order(1, at_ms=32_503_680_000_000), "field at_ms is more than 60 minutes ahead of the record's timestamp"),
        (order(1, at_ms=-1), "field at_ms is no date of the years 1970 to 9999"),
        (order(1, at_ms=2**62), "field at_ms is no date of the years 1970 to 9999"),
        (order(1, quantity=0), "field quantity is not from 1 to 10,000"),
        (order(1, cents=2**62), "field cents is not from 0 to 1,000,000,000"),
        (order(1, cents=-1), "field cents is not from 0 to 1,000,000,000"),
        (order(1, customer="x" * 900_000), "the value has more than 262,144 bytes"),
        (order(1, at_ms=None), ""),
    ],
    ids=[
        "no text",
        "half",
        "type",
        "missing",
        "tombstone",
        "year 3000",
        "before 1970",
        "no date",
        "none",
        "overflow",
        "negative",
        "large",
        "null",
    ],
)
def test_poison_becomes_a_dead_letter_and_moves_no_watermark(
    given: Callable[..., Input], settings: Settings, value: Any, reason: str
) -> None:
    orders = given(ORDERS, ORDER, value, order(2))
    assert [row["row"]["id"] for row in orders.good.collect()] == ["o-2"]
    (letter,) = [row for row in texts(kept(distinct(orders, settings), NEVER)) if row[0] == "dead-letters"]
    assert letter[3]["ottla.source"] == "orders-0@0"
    assert reason in letter[3]["ottla.reason"]
    assert len(letter[2]) < 300_000


def products(kafka_rows: Callable[..., DataFrame]) -> DataFrame:
    return products_of(
        kafka_rows(
            "products",
            ("p-pan", {"name": "Old pan", "category": "attic"}),
            ("p-pan", {"name": "Pan", "category": "kitchen"}),
            ("p-rake", {"name": "Rake", "category": "garden"}),
            ("p-rake", None),
            ("p-odd", b"{"),
        )
    )


def test_products_are_the_last_records_of_their_keys(kafka_rows: Callable[..., DataFrame]) -> None:
    assert [tuple(row) for row in products(kafka_rows).collect()] == [("p-pan", "Pan", "kitchen")]


def test_orders_have_an_invoice_and_a_shipment_or_a_dead_letter(
    given: Callable[..., Input], kafka_rows: Callable[..., DataFrame]
) -> None:
    orders = given(CLEAN_ORDERS, ORDER, order(1), order(2, product="p-rake"), b"{")
    rows = kept(enriched(orders, products(kafka_rows)), NEVER)
    by_sink = {sink: texts(rows.where(f"{SINK} = '{sink}'").drop(SINK)) for sink in ("invoices", "shipments")}
    dead, invoices = by_sink["invoices"][:2], by_sink["invoices"][2:]
    assert sorted(headers["ottla.source"] for _, _, _, headers in dead) == ["clean-orders-0@1", "clean-orders-0@2"]
    assert {headers["ottla.reason"] for _, _, _, headers in dead} > {"unknown product p-rake"}
    values = {"order": "o-1", "customer": "ann", "product": "p-pan", "name": "Pan", "category": "kitchen", "cents": 1_000}
    assert invoices == [("invoices", "o-1", {**values, "at_ms": NOW_MS + 1}, {"shop.source": "clean-orders-0@0"})]
    shipment = {"order": "o-1", "product": "p-pan", "name": "Pan", "quantity": 2}
    assert by_sink["shipments"] == [("shipments", "o-1", shipment, {"shop.source": "clean-orders-0@0"})]


def invoice(number: int, at_ms: int, category: str = "kitchen") -> dict[str, Any]:
    return {
        "order": f"o-{number}",
        "customer": "ann",
        "product": "p-pan",
        "name": "Pan",
        "category": category,
        "cents": 100 * number,
        "at_ms": at_ms,
    }


def test_revenue_is_summed_by_window_and_category(given: Callable[..., Input], settings: Settings) -> None:
    last_ms = WINDOW_MS + HOUR_MS - 1
    invoices = given(
        INVOICES,
        INVOICE,
        *(invoice(1, WINDOW_MS), invoice(2, last_ms), invoice(4, last_ms + 1), invoice(8, WINDOW_MS, "garden")),
    )
    totals = [value for topic, _, value, _ in texts(kept(revenue(invoices, settings), NEVER)) if topic == "revenue"]
    assert [(total["window_ms"] - WINDOW_MS, total["category"], total["invoices"], total["cents"]) for total in totals] == [
        (0, "garden", 1, 800),
        (0, "kitchen", 2, 300),
        (HOUR_MS, "kitchen", 1, 400),
    ]


def test_invoice_is_late_when_its_window_has_ended(given: Callable[..., Input], settings: Settings) -> None:
    rows = revenue(given(INVOICES, INVOICE, invoice(1, WINDOW_MS), invoice(2, WINDOW_MS + HOUR_MS)), settings)

    def late(watermark_ms: int) -> list[str]:
        return [key for topic, key, _, _ in texts(kept(rows, watermark_ms)) if topic == "late-invoices"]

    assert late(WINDOW_MS + HOUR_MS - 1) == []
    assert late(WINDOW_MS + HOUR_MS) == ["o-1"]
    assert late(WINDOW_MS + 2 * HOUR_MS) == ["o-1", "o-2"]


def payment(number: int, at_ms: int) -> dict[str, Any]:
    return {"id": f"pay-{number}", "order": f"o-{number}", "cents": 1_000, "at_ms": at_ms}


def test_payments_match_orders_within_the_time_limit(given: Callable[..., Input], settings: Settings) -> None:
    orders = given(CLEAN_ORDERS, ORDER, *(order(number, at_ms=NOW_MS) for number in range(1, 6)))
    limit_ms = settings.pay_within_minutes * MINUTE_MS
    times = {1: NOW_MS, 2: NOW_MS + limit_ms, 3: NOW_MS + limit_ms + 1, 4: NOW_MS - 1, 9: NOW_MS}
    # An event may be at most an hour ahead of its record's timestamp, and payment 3 is further ahead.
    payments = given(PAYMENTS, PAYMENT, *(payment(number, at_ms) for number, at_ms in times.items() if number != 3))
    rows = kept(settlements(orders, payments, settings), NEVER)
    assert [(value["order"], value["status"], value.get("owed"), value.get("paid")) for _, _, value, _ in texts(rows)] == [
        ("o-1", "paid", 1_000, 1_000),
        ("o-2", "paid", 1_000, 1_000),
        ("o-3", "unpaid", 1_000, None),
        ("o-4", "unmatched", None, 1_000),
        ("o-4", "unpaid", 1_000, None),
        ("o-5", "unpaid", 1_000, None),
        ("o-9", "unmatched", None, 1_000),
    ]
