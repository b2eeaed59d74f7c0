"""The jobs on Spark: what they write, what a replayed batch does, and what the audit finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla import Broker
from pipeline.errors import PipelineError
from pipeline.exactly_once import Report
from pipeline.generate import Shape, purchases
from pipeline.jobs import shop
from pipeline.jobs.audit import audit
from pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS
from pipeline.session import session
from pipeline.topics import create, fill
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.slow, pytest.mark.java, pytest.mark.entry("PIP-01")]

SHAPE = Shape(2_000, malformed_share=0.05)
BATCH_RECORDS = 900


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    import os

    os.environ.setdefault("JAVA_HOME", str(Path(kafka.java()).resolve().parent.parent))
    found = session("ottla-tests", master="local[2]", ivy_home=kafka.cache_dir() / "spark")
    yield found
    found.stop()


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path_factory.mktemp("jobs")) as found:
        create(found.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), 3)
        fill(found.bootstrap, PURCHASES, purchases(SHAPE))
        yield found


def run_shop(spark: Any, broker: Broker, checkpoint: Path, *, by_driver: bool) -> list[Report]:
    reports: list[Report] = []
    retries: list[BaseException] = []
    options = shop.ShopOptions(broker.bootstrap, "shop", str(checkpoint), "run-1", BATCH_RECORDS, by_driver=by_driver)
    query = shop.start(spark, options, lambda report, _: reports.append(report), lambda _, error: retries.append(error))
    shop.finish(query)
    assert not retries
    return reports


@pytest.mark.parametrize("by_driver", [False, True], ids=["tasks", "driver"])
def test_the_shop_handles_every_purchase_once_over_a_crash(spark: Any, broker: Broker, tmp_path: Path, by_driver: bool) -> None:
    with pytest.raises(PipelineError, match="no-such-topic"):
        shop.ExactlyOnceSink(
            shop.SinkOptions(broker.bootstrap, "x", ("no-such-topic",), "r"), lambda r, s: None, lambda n, e: None
        ).start()
    reports = run_shop(spark, broker, tmp_path, by_driver=by_driver)
    assert len(reports) >= 3
    sound = sum(row.is_sound for row in purchases(SHAPE))
    assert sum(report.records for report in reports) == 2 * sound + SHAPE.rows - sound
    # The driver dies between EndTxn and Spark's own commit: the last batch comes again.
    for name in (f"{reports[-1].batch}", f".{reports[-1].batch}.crc"):
        (tmp_path / "commits" / name).unlink()
    (again,) = run_shop(spark, broker, tmp_path, by_driver=by_driver)
    assert (again.batch, again.is_replay) == (reports[-1].batch, True)
    found = audit(spark, broker.bootstrap)
    assert found.is_sound, found.findings
    by_topic = {figures.topic: figures for figures in found.topics}
    assert by_topic[INVOICES].committed == by_topic[SHIPMENTS].committed == sound
    assert by_topic[DEAD_LETTERS].committed == SHAPE.rows - sound
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        run_shop(spark, broker, tmp_path / "fresh", by_driver=by_driver)
    check_offenders_are_named(spark, broker)


def check_offenders_are_named(spark: Any, broker: Broker) -> None:
    """An invoice twice, one of nothing, a shipment of nothing."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    known = next(json.loads(row.value) for row in purchases(SHAPE) if row.is_sound)
    invoice = {"purchase": known["id"], "user": known["user"], "amount_cents": 1, "at_ms": 1}
    producer.produce(INVOICES, json.dumps(invoice).encode())
    producer.produce(SHIPMENTS, json.dumps({"purchase": 999_999, "user": "u", "product": "p", "quantity": 1}).encode())
    assert producer.flush(10) == 0
    broken = {f.rule: f.examples for f in audit(spark, broker.bootstrap).findings if f.count}
    assert broken == {
        "invoices twice": [str(known["id"])],
        "invoices of a wrong amount": [str(known["id"])],
        "shipments of no purchase": ["999999"],
    }
