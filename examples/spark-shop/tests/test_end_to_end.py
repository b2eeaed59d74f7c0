"""Runs each job on a broker and Spark, and tests its topics, late rows and a second run. The last test audits all jobs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import NOW_MS
from pyspark.sql import SparkSession
from shop import audit
from shop.findings import shown
from shop.generate import Workload, fill
from shop.inputs import MINUTE_MS
from shop.running import JOBS, run
from shop.schemas import (
    CLEAN_ORDERS,
    DEAD_LETTERS,
    INVOICES,
    LATE_INVOICES,
    LATE_ORDERS,
    LATE_SETTLEMENTS,
    ORDERS,
    PAYMENTS,
    PRODUCTS,
    RECEIPTS,
    REVENUE,
    SETTLEMENTS,
    SHIPMENTS,
)
from shop.settings import Settings
from shop.topics import create
from test_jobs import HOUR_MS, WINDOW_MS, invoice, order, payment

from ottla import Broker, Record
from ottla.spark import PipelineError

pytestmark = [pytest.mark.ottla(fresh=True), pytest.mark.usefixtures("spark")]

Runs = Callable[..., list[str]]


@pytest.fixture
def deployed(ottla_bootstrap: str, settings: Settings, tmp_path: Path) -> Settings:
    deployed = replace(settings, bootstrap=ottla_bootstrap, checkpoints=str(tmp_path / "checkpoints"), partitions=1)
    create(deployed)
    return deployed


@pytest.fixture
def runs(deployed: Settings) -> Iterator[Runs]:
    """Return a function that runs a job until its topics are read, and returns the lines about its batches."""

    def run_job(*names: str) -> list[str]:
        lines: list[str] = []
        run(names, deployed, say=lines.append)
        return lines

    yield run_job


def sent(value: dict[str, Any] | bytes, at_ms: int = NOW_MS) -> Record:
    """Return a record that was sent when its event happened, or at ``at_ms``."""
    at_ms = max(at_ms, value["at_ms"]) if isinstance(value, dict) else at_ms
    return Record(value, key="k", timestamp=at_ms)


def ids(broker: Broker, topic: str, field: str = "id") -> list[str]:
    return sorted(json.loads(record.value or b"{}")[field] for record in broker.records(topic))


def test_distinct_writes_each_order_once_and_late_ones_to_their_topic(ottla: Broker, runs: Runs) -> None:
    ottla.produce(ORDERS, [sent(order(1)), sent(order(2)), sent(order(1)), sent(b"{")])
    runs("distinct")
    # This order moves the watermark by hours, so in the next batch an order with the time of the earlier orders is late.
    ottla.produce(ORDERS, [sent(order(3, at_ms=NOW_MS + 5 * HOUR_MS))])
    runs("distinct")
    ottla.produce(ORDERS, [sent(order(4), NOW_MS + 6 * HOUR_MS), sent(order(5, at_ms=NOW_MS + 6 * HOUR_MS))])
    assert runs("distinct")
    assert runs("distinct") == [], "a second run finds nothing to do"
    assert ids(ottla, CLEAN_ORDERS) == ["o-1", "o-2", "o-3", "o-5"]
    assert ids(ottla, LATE_ORDERS) == ["o-4"]
    assert len(ottla.records(DEAD_LETTERS)) == 1


def test_invoices_are_written_by_two_sinks(ottla: Broker, runs: Runs) -> None:
    ottla.produce(PRODUCTS, [Record({"name": "Pan", "category": "kitchen"}, key="p-pan")])
    ottla.produce(CLEAN_ORDERS, [sent(order(1)), sent(order(2, product="p-none")), sent(order(3))])
    lines = runs("invoices")
    assert lines == ["invoices.invoices, batch 0: 1 dead-letters, 2 invoices", "invoices.shipments, batch 0: 2 shipments"]
    assert ids(ottla, INVOICES, "order") == ids(ottla, SHIPMENTS, "order") == ["o-1", "o-3"]
    receipts = [json.loads(record.value or b"{}") for record in ottla.records(RECEIPTS)]
    assert {receipt["sink"]: receipt["records"] for receipt in receipts} == {
        "invoices.invoices": {DEAD_LETTERS: 1, INVOICES: 2},
        "invoices.shipments": {SHIPMENTS: 2},
    }


def test_revenue_has_the_last_totals_and_late_invoices(ottla: Broker, runs: Runs) -> None:
    for batch in (
        [invoice(1, WINDOW_MS), invoice(2, WINDOW_MS)],
        [invoice(3, WINDOW_MS), invoice(4, WINDOW_MS + 5 * HOUR_MS)],
        [invoice(5, WINDOW_MS), invoice(6, WINDOW_MS + 5 * HOUR_MS)],
    ):
        ottla.produce(INVOICES, [sent(one, WINDOW_MS + 5 * HOUR_MS) for one in batch])
        runs("revenue")
    totals = {record.key: json.loads(record.value or b"{}") for record in ottla.records(REVENUE)}
    assert sorted((total["invoices"], total["cents"]) for total in totals.values()) == [(2, 1_000), (3, 600)]
    assert ids(ottla, LATE_INVOICES, "order") == ["o-5"]


def test_settlements_are_paid_unpaid_unmatched_or_open(ottla: Broker, runs: Runs) -> None:
    ottla.produce(CLEAN_ORDERS, [sent(order(number, at_ms=NOW_MS)) for number in (1, 2)])
    ottla.produce(PAYMENTS, [sent(payment(1, NOW_MS + MINUTE_MS)), sent(payment(9, NOW_MS))])
    runs("settlements")
    statuses = lambda: sorted((v["order"], v["status"]) for v in values(ottla, SETTLEMENTS))  # noqa: E731
    assert statuses() == [("o-1", "paid")]
    later_ms = NOW_MS + 9 * HOUR_MS
    ottla.produce(CLEAN_ORDERS, [sent(order(3, at_ms=later_ms))])
    ottla.produce(PAYMENTS, [sent(payment(3, later_ms))])
    runs("settlements")
    ottla.produce(CLEAN_ORDERS, [sent(order(4, at_ms=NOW_MS), later_ms)])
    ottla.produce(PAYMENTS, [sent(payment(4, later_ms + 1))])
    runs("settlements")
    assert statuses() == [("o-1", "paid"), ("o-2", "unpaid"), ("o-3", "paid"), ("o-9", "unmatched")]
    assert [value["id"] for value in values(ottla, LATE_SETTLEMENTS)] == ["o-4"]


def values(broker: Broker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"{}") for record in broker.records(topic)]


def test_all_jobs_together_are_sound_and_an_error_is_found(
    ottla: Broker, deployed: Settings, runs: Runs, spark: SparkSession
) -> None:
    fill(deployed, Workload(60, seed=3, step_ms=60_000, late_share=0.1, resent_share=0.1, malformed_share=0.05))
    lines = runs(*JOBS)
    assert {line.partition(",")[0] for line in lines} == {f"{job.name}.{sink}" for job in JOBS.values() for sink in job.sinks}
    audited = audit.audit(spark, deployed)
    assert audited.is_sound, shown(audited)
    assert all(stage.inputs == sum(stage.outcomes.values()) for stage in audited.stages if stage.name != "transactions")
    one = ottla.records(INVOICES)[0]
    ottla.produce(INVOICES, [Record(one.value, key="again", headers=dict(one.headers))])
    rules = Counter(found.rule for stage in audit.audit(spark, deployed).stages for found in stage.findings)
    assert {"invoices twice", "totals that are not the sum of their invoices", "transactions that are torn"} <= set(rules)


def test_job_without_topics_says_how_to_create_them(ottla: Broker, settings: Settings) -> None:
    with pytest.raises(PipelineError, match=r"missing topics orders, .*; create them with: python -m shop topics"):
        run(["distinct"], replace(settings, bootstrap=ottla.bootstrap))
