"""Tests that the audit finds each planted error, and nothing in a sound result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from conftest import NOW_MS
from pyspark.sql import DataFrame, SparkSession
from shop.audit import (
    distinct_stage,
    invoices_stage,
    last_totals,
    receipts_stage,
    revenue_stage,
    settlements_stage,
)
from shop.findings import Audit, Finding, Stage, shown
from shop.inputs import MINUTE_MS, Input
from shop.schemas import (
    CLEAN_ORDERS,
    INVOICE,
    INVOICES,
    ORDER,
    ORDERS,
    PAYMENT,
    PAYMENTS,
    RECEIPT,
    SETTLEMENT,
    SHIPMENT,
    TOTAL,
)
from shop.settings import Settings
from test_jobs import HOUR_MS, WINDOW_MS, invoice, order, payment

FAR_MS = NOW_MS + 1_000 * HOUR_MS
"""A watermark, in ms, that is later than all time limits, so that nothing is open."""


@dataclass
class Frames:
    """Makes the outputs of a job. A value is a tuple of source and fields. If the source is None, the record has no source
    header."""

    spark: SparkSession
    schemas: dict[str, str] = field(default_factory=dict)

    def outputs(self, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
        made = [(values, source, paid, n, key) for n, (source, paid, key, values) in enumerate(rows)]
        return self.spark.createDataFrame(made, f"v STRUCT<{schema}>, source STRING, paid_source STRING, offset LONG, key STRING")

    def letters(self, job: str, *sources: str) -> DataFrame:
        return self.spark.createDataFrame([(source, f"{job}.x/s/0") for source in sources], "source STRING, batch STRING")


@pytest.fixture
def frames(spark: SparkSession) -> Frames:
    return Frames(spark)


def of(source: str | None, values: dict[str, Any], paid: str | None = None, key: str = "") -> tuple[Any, ...]:
    return source, paid, key, values


def rules(stage: Stage) -> set[str]:
    return {found.rule for found in stage.findings}


ORDER_1, ORDER_2, ORDER_3 = order(1), order(2), order(3)


def judge_orders(given: Callable[..., Input], frames: Frames, clean: list[Any], late: list[Any], letters: list[str]) -> Stage:
    """Audit four records: two orders, a repetition of the first order, and a malformed record."""
    orders = given(ORDERS, ORDER, ORDER_1, ORDER_2, ORDER_1, b"{")
    return distinct_stage(orders, frames.outputs(ORDER, *clean), frames.outputs(ORDER, *late), frames.letters("distinct", *letters))


KEPT_1, KEPT_2 = of("orders-0@0", ORDER_1), of("orders-0@1", ORDER_2)
BAD = ["orders-0@3"]


@pytest.mark.parametrize(
    ("clean", "late", "letters", "broken"),
    [
        ([KEPT_1, KEPT_2], [], BAD, set()),
        ([of("orders-0@2", ORDER_1), KEPT_2], [], BAD, set()),
        ([KEPT_1], [KEPT_2], BAD, set()),
        ([KEPT_2], [KEPT_1, of("orders-0@2", ORDER_1)], BAD, set()),
        ([KEPT_1], [], BAD, {"orders lost, or not processed yet"}),
        ([KEPT_2], [KEPT_1], BAD, {"orders lost, or not processed yet"}),
        ([KEPT_1, of("orders-0@2", ORDER_1), KEPT_2], [], BAD, {"orders twice"}),
        ([KEPT_1, KEPT_1, KEPT_2], [], BAD, {"orders twice", "order records with two outcomes"}),
        ([KEPT_1, KEPT_2], [KEPT_2], BAD, {"order records with two outcomes"}),
        ([KEPT_1, KEPT_2], [], [], {"malformed orders without a dead letter"}),
        ([KEPT_1, KEPT_2], [], BAD * 2, {"order records with two outcomes"}),
        ([KEPT_1, KEPT_2, of("orders-0@9", ORDER_3)], [], BAD, {"outputs of no order record", "orders that were never sent"}),
    ],
)
def test_orders(
    given: Callable[..., Input], frames: Frames, clean: list[Any], late: list[Any], letters: list[str], broken: set[str]
) -> None:
    stage = judge_orders(given, frames, clean, late, letters)
    assert rules(stage) == broken
    if not broken:
        assert stage.inputs == sum(stage.outcomes.values()) == 4


INVOICE_1 = {**invoice(1, NOW_MS), "cents": 1_000}
BILLED, SHIPPED = of("clean-orders-0@0", INVOICE_1), of("clean-orders-0@0", {"order": "o-1", "quantity": 2})


@pytest.mark.parametrize(
    ("invoices", "shipments", "letters", "broken"),
    [
        ([BILLED], [SHIPPED], ["clean-orders-0@1"], set()),
        ([BILLED], [SHIPPED], [], {"orders without an invoice or a dead letter"}),
        (
            [BILLED, BILLED],
            [SHIPPED, SHIPPED],
            ["clean-orders-0@1"],
            {"invoices twice", "shipments twice", "orders with an invoice and a dead letter, or two"},
        ),
        ([BILLED], [], ["clean-orders-0@1"], {"invoices without a shipment, or the reverse"}),
        ([BILLED], [SHIPPED], ["clean-orders-0@1"] * 2, {"orders with an invoice and a dead letter, or two"}),
        (
            [of("clean-orders-0@0", {**INVOICE_1, "cents": 999})],
            [SHIPPED],
            ["clean-orders-0@1"],
            {"invoices of a wrong amount"},
        ),
        ([BILLED], [of("clean-orders-0@0", {"order": "o-7"})], ["clean-orders-0@1"], {"outputs of another order"}),
        (
            [BILLED, of(None, INVOICE_1)],
            [SHIPPED],
            ["clean-orders-0@1"],
            {"outputs of no order", "invoices without a shipment, or the reverse"},
        ),
    ],
)
def test_invoices(
    given: Callable[..., Input], frames: Frames, invoices: list[Any], shipments: list[Any], letters: list[str], broken: set[str]
) -> None:
    clean = given(CLEAN_ORDERS, ORDER, ORDER_1, order(2, product="p-unknown"))
    stage = invoices_stage(
        clean, frames.outputs(INVOICE, *invoices), frames.outputs(SHIPMENT, *shipments), frames.letters("invoices", *letters)
    )
    assert rules(stage) == broken
    if not broken:
        assert stage.inputs == sum(stage.outcomes.values()) == 2


def total(invoices: int, cents: int, category: str = "kitchen") -> tuple[Any, ...]:
    values = {"window_ms": WINDOW_MS, "category": category, "invoices": invoices, "cents": cents}
    return of(None, values, key=f"{WINDOW_MS}|{category}")


@pytest.mark.parametrize(
    ("totals", "late", "broken"),
    [
        ([total(1, 100), total(2, 300)], [], set()),
        ([total(1, 100)], [of("invoices-0@1", invoice(2, WINDOW_MS))], set()),
        ([total(1, 100)], [], {"totals that are not the sum of their invoices"}),
        ([total(2, 300)], [of("invoices-0@1", invoice(2, WINDOW_MS))], {"totals that are not the sum of their invoices"}),
        ([total(2, 301)], [], {"totals that are not the sum of their invoices"}),
        ([total(2, 300), total(1, 5, "garden")], [], {"totals that are not the sum of their invoices"}),
        ([total(1, 100)], [of("invoices-0@1", invoice(2, WINDOW_MS))] * 2, {"late invoices twice"}),
        ([total(2, 300)], [of("invoices-0@7", invoice(2, WINDOW_MS))], {"late invoices of no invoice"}),
    ],
)
def test_revenue(
    given: Callable[..., Input], frames: Frames, settings: Settings, totals: list[Any], late: list[Any], broken: set[str]
) -> None:
    invoices = given(INVOICES, INVOICE, invoice(1, WINDOW_MS), invoice(2, WINDOW_MS))
    given_totals = last_totals(frames.outputs(TOTAL, *totals))
    stage = revenue_stage(invoices, given_totals, frames.outputs(INVOICE, *late), frames.letters("revenue"), settings)
    assert rules(stage) == broken
    if not broken:
        assert stage.inputs == sum(stage.outcomes.values()) == 2


def settled(status: str, order_source: str | None, paid_source: str | None, paid: int | None = 1_000) -> tuple[Any, ...]:
    return of(order_source, {"status": status, "order": "o", "paid": paid}, paid_source)


PAID = settled("paid", "clean-orders-0@0", "payments-0@0")
UNPAID = settled("unpaid", "clean-orders-0@1", None, None)
UNMATCHED = settled("unmatched", None, "payments-0@1")


@pytest.mark.parametrize(
    ("rows", "watermark_ms", "broken"),
    [
        ([PAID, UNPAID, UNMATCHED], FAR_MS, set()),
        ([PAID], NOW_MS, set()),
        ([PAID], FAR_MS, {"orders not settled in time", "payments not settled in time"}),
        ([PAID, PAID, UNPAID, UNMATCHED], FAR_MS, {"payments settled twice"}),
        ([PAID, UNPAID, UNPAID, UNMATCHED], FAR_MS, {"orders settled twice"}),
        ([PAID, UNPAID, UNMATCHED, settled("unpaid", "clean-orders-0@0", None)], FAR_MS, {"orders settled twice"}),
        ([PAID, UNPAID, UNMATCHED, settled("unmatched", None, "payments-0@0")], FAR_MS, {"payments settled twice"}),
        ([PAID, UNPAID, settled("unmatched", None, "payments-0@1", 5)], FAR_MS, {"settlements of a wrong amount"}),
        ([PAID, UNPAID, UNMATCHED, settled("unpaid", "clean-orders-0@9", None)], FAR_MS, {"settlements of no order"}),
        ([PAID, UNPAID, UNMATCHED, settled("unmatched", None, "payments-0@9")], FAR_MS, {"settlements of no payment"}),
    ],
)
def test_settlements(
    given: Callable[..., Input], frames: Frames, settings: Settings, rows: list[Any], watermark_ms: int, broken: set[str]
) -> None:
    orders = given(CLEAN_ORDERS, ORDER, ORDER_1, ORDER_2)
    payments = given(PAYMENTS, PAYMENT, payment(1, NOW_MS), payment(9, NOW_MS + 50 * MINUTE_MS))
    late, letters = frames.outputs(ORDER), frames.letters("settlements")
    stage = settlements_stage(orders, payments, frames.outputs(SETTLEMENT, *rows), late, letters, watermark_ms, settings)
    assert rules(stage) == broken
    if not broken:
        assert stage.inputs == sum(stage.outcomes.values()) == 4


@pytest.mark.parametrize(
    ("batches", "records", "broken"),
    [
        ([0, 1], ["a", "a", "b"], set()),
        ([0, 1], ["a", "b"], {"transactions that are torn"}),
        ([0, 1], ["a", "a", "b", "b"], {"transactions that are torn"}),
        ([0, 1], ["a", "a", "b", None], {"transactions that are torn"}),
        ([0, 2], ["a", "a", "b"], {"batches missing"}),
        ([0, 0, 1], ["a", "a", "a", "a", "b", "b"], None),
        ([1], ["a", "a", "b"], {"batches missing"}),
    ],
)
def test_receipts(spark: SparkSession, batches: list[int], records: list[str | None], broken: set[str] | None) -> None:
    """The receipt of the first batch counts two records in topic a and one record in topic b; the other receipts count none."""
    first = {"a": 2, "b": 1}
    made = [("job.sink", "s", batch, 0, first if batch == batches[0] else {}) for batch in batches]
    label = f"job.sink/s/{batches[0]}"
    labelled = [(label if topic else None, topic or "a") for topic in records]
    stage = receipts_stage(spark.createDataFrame(made, RECEIPT), spark.createDataFrame(labelled, "batch STRING, topic STRING"))
    if broken is None:
        assert "batches committed twice" in rules(stage)
    else:
        assert rules(stage) == broken


def test_broken_rule_is_shown_with_examples() -> None:
    audited = Audit((Stage("distinct", 3, {"clean": 2}, (Finding("orders twice", 1, ("o-1 at 5",)),)),))
    assert not audited.is_sound
    assert "BROKEN: orders twice: 1, such as o-1 at 5" in shown(audited)
    assert shown(audited).endswith("not sound")
