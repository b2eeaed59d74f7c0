"""The jobs on Spark and a broker: their output after replays, retries, data loss and resumed exports, and the audit's findings."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions
from pyspark.testing import assertDataFrameEqual

from ottla import Broker
from ottla.client.security.client_config import Connecting
from ottla.pipeline.generate import Generated, Workload, purchases
from ottla.pipeline.jobs import audit, shop, totals
from ottla.pipeline.jobs import generate as generating
from ottla.pipeline.jobs.export import ExportOptions, Files, export, plans
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS, TOTALS, Terms
from ottla.pipeline.stream import Job, Running, StreamOptions, source_options
from ottla.pipeline.topics import create, fill
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.formats import AVRO
from ottla.spark.sink.exactly_once import BatchReport
from ottla.spark.sink.progress_listener import StreamProgress
from ottla.spark.sink.transaction import SharedTransaction

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java, pytest.mark.entry("PIP-01", "PIP-14")]

WORKLOAD = Workload(2_000, malformed_share=0.05)
MORE = Workload(500, seed=2)
BATCH_RECORDS = 900
HOUR_MS = 3_600_000
REPEATED_IDS = "purchase ids that the source has more than once"
TOO_LATE = "purchases that came too late for their totals, as far as the topic shows"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS), 3)
        fill(broker.bootstrap, PURCHASES, purchases(WORKLOAD))
        yield broker


def run(
    spark: Any,
    broker: Broker,
    job: Job,
    checkpoint: Path,
    *,
    by_driver: bool = False,
    transactional_id: str = "",
    seen: list[StreamProgress] | None = None,
    **more: Any,
) -> list[BatchReport]:
    options = StreamOptions(
        broker.bootstrap, transactional_id or job.name, str(checkpoint), "run-1", BATCH_RECORDS, by_driver=by_driver, **more
    )
    retries: list[BaseException] = []
    progress_events: list[StreamProgress] = []
    reports = Running(spark, job, options, lambda _, error: retries.append(error)).finish(progress_events.append)
    assert not retries
    assert [progress.report for progress in progress_events] == reports
    assert progress_events[-1].behind == 0
    if seen is not None:
        seen += progress_events
    return reports


def die_before_sparks_commit(checkpoint: Path, batch: int) -> None:
    """Delete Spark's commit of the batch, as if the driver had been killed between EndTxn and that commit."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def sound(workload: Workload = WORKLOAD) -> int:
    return sum(row.is_sound for row in purchases(workload))


@pytest.mark.parametrize("by_driver", [False, True], ids=["tasks", "driver"])
def test_shop_job_handles_every_purchase_once_across_a_crash(spark: Any, broker: Broker, tmp_path: Path, by_driver: bool) -> None:
    reports = run(spark, broker, shop.JOB, tmp_path / "shop", by_driver=by_driver)
    assert len(reports) >= 3
    assert sum(report.records for report in reports) == 2 * sound() + WORKLOAD.rows - sound()
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "shop", before)
    for kept in ("offsets", "commits"):
        for name in (f"{reports[-1].batch}", f".{reports[-1].batch}.crc"):
            (before / kept / name).unlink()
    die_before_sparks_commit(tmp_path / "shop", reports[-1].batch)
    (again,) = run(spark, broker, shop.JOB, tmp_path / "shop", by_driver=by_driver)
    assert (again.batch, again.is_replay) == (reports[-1].batch, True)
    audit_report = audit.audit(spark, audit.AuditOptions(broker.bootstrap))
    assert audit_report.is_sound, audit_report.findings
    if by_driver:
        check_a_checkpoint_that_was_set_back(spark, broker, before)
    by_topic = {figures.topic: figures for figures in audit_report.topics}
    assert by_topic[INVOICES].committed == by_topic[SHIPMENTS].committed == sound()
    assert by_topic[DEAD_LETTERS].committed == WORKLOAD.rows - sound()
    assert by_topic[INVOICES].offsets == sound() + by_topic[INVOICES].markers
    if not by_driver:
        check_what_a_person_is_told(spark, broker, tmp_path)
        check_offenders_are_named(spark, broker)


def check_a_checkpoint_that_was_set_back(spark: Any, broker: Broker, before: Path) -> None:
    """Spark plans the last batch again, with more input than was committed for it."""
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    with pytest.raises(PipelineError, match="an older checkpoint was restored"):
        run(spark, broker, shop.JOB, before, by_driver=True)


def check_what_a_person_is_told(spark: Any, broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="unknown topic 'nowhere'"):
        run(spark, broker, Job("x", PURCHASES, ("nowhere",), shop.transform), tmp_path / "x")
    with pytest.raises(PipelineError, match="came from another checkpoint"):
        run(spark, broker, shop.JOB, tmp_path / "fresh")
    as_number = ("topic", "key", "offset AS value")
    with pytest.raises(PipelineError, match=r"column 'value' is bigint; the sink accepts binary or string"):
        run(spark, broker, Job("x", PURCHASES, (INVOICES,), lambda frame, *_: frame.selectExpr(*as_number)), tmp_path / "x")
    elsewhere = Job("y", PURCHASES, (INVOICES,), lambda frame, *_: frame.select("topic", "key", "value", "headers"))
    with pytest.raises(PipelineError, match="a row goes to topic 'purchases', which does not exist or is not in"):
        run(spark, broker, elsewhere, tmp_path / "y")


def check_offenders_are_named(spark: Any, broker: Broker) -> None:
    """The audit must report a duplicate invoice, an invoice and a shipment without purchase, and a transaction that never ends."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    known = broker.records(INVOICES)[0]
    where = dict(known.headers)["source"]
    assert known.value is not None
    assert where is not None
    invoice = {**json.loads(known.value), "amount_cents": 1}
    producer.produce(INVOICES, json.dumps(invoice).encode(), headers=[("source", where)])
    producer.produce(SHIPMENTS, json.dumps({"purchase": 999_999, "user": "u", "product": "p", "quantity": 1}).encode())
    assert producer.flush(60) == 0
    left = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "transactional.id": "left"})
    left.init_transactions()
    left.begin_transaction()
    left.produce(DEAD_LETTERS, b"open", partition=1)
    assert left.flush(60) == 0
    broken = {f.rule: (f.count, f.examples) for f in audit.audit(spark, audit.AuditOptions(broker.bootstrap)).findings if f.count}
    assert broken.pop("transactions left open")[1][0].startswith(f"{DEAD_LETTERS}-1@")
    assert broken == {
        "invoices twice": (1, [where.decode()]),
        "purchases with an invoice of a wrong amount": (1, [where.decode()]),
        "shipments of no purchase": (1, ["no source, purchase 999999"]),
    }


def test_interrupted_parquet_export_resumes(spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = run(spark, broker, totals.JOB, tmp_path / "totals")
    fed = [report.batch for report in reports if report.records]
    die_before_sparks_commit(tmp_path / "totals", reports[-1].batch)
    assert run(spark, broker, totals.JOB, tmp_path / "totals")[0].is_replay
    to = str(tmp_path / "export")
    by_segments = ExportOptions(broker.bootstrap, PURCHASES, to, str(broker.data_dir), part_offsets=600, group="files")
    renames = iter([True, False])
    whole = Files.rename

    def cut_off(files: Files, old: str, new: str) -> None:
        """Interrupt the export at the second part's rename."""
        if new.startswith("part=") and not next(renames):
            raise KeyboardInterrupt
        whole(files, old, new)

    monkeypatch.setattr(Files, "rename", cut_off)
    with pytest.raises(KeyboardInterrupt):
        export(spark, by_segments, lambda *numbers: None)
    monkeypatch.undo()
    assert sum(broker.lag("files").values()) > 0
    with pytest.raises(PipelineError, match=f"group 'files' has exported {PURCHASES}-"):
        export(spark, msgspec.structs.replace(by_segments, to=f"{to}-other"), lambda *numbers: None)
    done: list[tuple[int, int, int]] = []
    export(spark, by_segments, lambda *numbers: done.append(numbers))
    assert [number for number, _, _ in done] == list(range(1, len(done) + 1))
    assert len(plans(Files(spark, to), PURCHASES)) == 1
    assert set(broker.lag("files").values()) == {0}
    assert Files(spark, os.path.relpath(to)).local("x") == f"{to}/x"
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    by_broker = ExportOptions(broker.bootstrap, PURCHASES, to)
    assert export(spark, by_broker, lambda *numbers: None) == MORE.rows
    assert export(spark, by_broker, lambda *numbers: None) == 0
    run(spark, broker, totals.JOB, tmp_path / "totals")
    run(spark, broker, shop.JOB, tmp_path / "shop")
    audit_report = audit.audit(spark, audit.AuditOptions(broker.bootstrap, with_totals=True, export=to))
    # Ids of the second seed start at 0 again, so ids are repeated. Each record counts as a purchase, and the audit notes the ids.
    assert audit_report.is_sound, audit_report.findings
    assert [(f.rule, f.count > 400) for f in audit_report.findings if f.count] == [(REPEATED_IDS, True)]
    assert len(fed) >= 2
    with pytest.raises(PipelineError, match=f"has an export of topic '{PURCHASES}'"):
        export(spark, ExportOptions(broker.bootstrap, INVOICES, to), lambda *numbers: None)


def test_totals_job_stores_its_state_in_rocksdb_when_configured(
    spark: Any, other_spark: Any, broker: Broker, tmp_path: Path
) -> None:
    # The state store is a setting of the session, which must be unchanged afterwards.
    session, checkpoint = other_spark, tmp_path / "totals"
    before = session.conf.get("spark.sql.streaming.stateStore.providerClass")
    reports = run(session, broker, totals.JOB, checkpoint, state_store="rocksdb")
    die_before_sparks_commit(checkpoint, reports[-1].batch)
    assert run(session, broker, totals.JOB, checkpoint, state_store="rocksdb")[0].is_replay
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    run(session, broker, totals.JOB, checkpoint, state_store="rocksdb")
    kept = [file.suffix for file in (checkpoint / "state").rglob("*")]
    assert ".zip" in kept
    assert ".delta" not in kept
    assert session.conf.get("spark.sql.streaming.stateStore.providerClass") == before
    run(spark, broker, shop.JOB, tmp_path / "shop")
    audit_report = audit.audit(spark, audit.AuditOptions(broker.bootstrap, with_totals=True))
    assert audit_report.is_sound, audit_report.findings


def broken(spark: Any, broker: Broker, **options: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Run an audit. Returns how often each rule is broken, and how often each note applies."""
    findings = audit.audit(spark, audit.AuditOptions(broker.bootstrap, **options)).findings
    counts = [{f.rule: f.count for f in findings if f.count and f.is_note is is_note} for is_note in (False, True)]
    return counts[0], counts[1]


def test_totals_job_counts_duplicate_purchases_once_when_configured(spark: Any, tmp_path: Path) -> None:
    """A producer repeats purchases within a batch, and a later import repeats all of them."""
    rows = list(purchases(Workload(300, malformed_share=0.1)))
    good = sum(row.is_sound for row in rows)
    once = Terms(deduplicate=True)
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS), 2)
        fill(broker.bootstrap, PURCHASES, [*rows, *rows[:50]])
        seen: list[StreamProgress] = []
        for start in range(2):
            for job in (shop.JOB, totals.JOB):
                run(spark, broker, job, tmp_path / job.name, terms=once, seen=seen)
            twice = good if start else sum(row.is_sound for row in rows[:50])
            assert broken(spark, broker, with_totals=True, terms=once) == ({}, {REPEATED_IDS: twice})
            if not start:
                fill(broker.bootstrap, PURCHASES, rows)
        assert len(broker.records(INVOICES)) == len(broker.records(SHIPMENTS)) == good
        again = sum(row.is_sound for row in rows[:50]) + good
        assert sum(progress.repeated for progress in seen) == 2 * again
        assert len(broker.records(DEAD_LETTERS)) == 650 - good - again
        # The audit runs without --deduplicate, unlike the jobs, and reports the difference.
        assert broken(spark, broker) == (
            {"purchases without one of the invoices": again, "purchases without one of the shipments": again},
            {REPEATED_IDS: good},
        )
        # A checkpoint with Spark's state for deduplication cannot be used without it, and vice versa.
        run(spark, broker, shop.JOB, tmp_path / "plain", transactional_id="plain")
        fill(broker.bootstrap, PURCHASES, rows[:10])
        for name, how, terms in (("shop", "with", Terms()), ("plain", "without", once)):
            with pytest.raises(PipelineError, match=f"{name} was created {how} --deduplicate, which cannot be changed later"):
                run(spark, broker, shop.JOB, tmp_path / name, transactional_id=name, terms=terms)
        with pytest.raises(PipelineError, match="stateful operator"):
            run(spark, broker, totals.JOB, tmp_path / "totals")


def test_audit_distinguishes_late_purchases_from_lost_purchases(spark: Any, tmp_path: Path) -> None:
    def bought(number: int, hours: int) -> Generated:
        at_ms = WORKLOAD.begin_ms + hours * HOUR_MS
        purchase = {"id": number, "user": "u", "product": "p", "quantity": 1, "price_cents": 100, "at_ms": at_ms}
        return Generated(b"u", json.dumps(purchase).encode(), at_ms, True)

    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS), 1)
        fill(broker.bootstrap, PURCHASES, [bought(0, 0), bought(1, 0), bought(2, 5)])
        seen: list[StreamProgress] = []
        run(spark, broker, totals.JOB, tmp_path / "totals", seen=seen)
        fill(broker.bootstrap, PURCHASES, [bought(3, 0), bought(4, 1), bought(5, 5)])
        run(spark, broker, totals.JOB, tmp_path / "totals", seen=seen)
        run(spark, broker, shop.JOB, tmp_path / "shop")
        assert sum(progress.late for progress in seen) == 2
        # One late purchase is in a window that has a total, the other in a window that never had a total.
        assert broken(spark, broker, with_totals=True) == ({}, {TOO_LATE: 2})
        # The next purchase arrives in time but is not counted in the totals.
        fill(broker.bootstrap, PURCHASES, [bought(6, 5)])
        run(spark, broker, shop.JOB, tmp_path / "shop")
        assert broken(spark, broker, with_totals=True) == ({"totals that are not the sum of their purchases": 1}, {TOO_LATE: 2})


def test_second_pipeline_with_the_same_transactional_id_is_refused(spark: Any, broker: Broker, tmp_path: Path) -> None:
    def started(name: str) -> Running:
        options = StreamOptions(broker.bootstrap, "shop", str(tmp_path / name), name, BATCH_RECORDS, is_bounded=False)
        return Running(spark, msgspec.structs.replace(shop.JOB, name=name), options, lambda _, error: None)

    first = started("first")
    first._query.processAllAvailable()
    # The second pipeline has its own checkpoint, so it would handle every purchase again.
    with pytest.raises(PipelineError, match="the last batch under this transactional id came from another checkpoint"):
        started("second").finish()
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    first._query.processAllAvailable()
    reports = first.finish(is_stop_wanted=lambda: True)
    assert sum(report.records for report in reports) == MORE.rows + sound(MORE) + WORKLOAD.rows + sound()


def test_spark_driver_is_fenced_when_another_driver_uses_its_transactional_id(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Another driver takes over the transactional id, and then a new driver continues with the checkpoint."""
    options = StreamOptions(broker.bootstrap, "shop", str(tmp_path / "shop"), "run", BATCH_RECORDS, is_bounded=False)
    first = Running(spark, shop.JOB, options, lambda _, error: None)
    first._query.processAllAvailable()
    SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "shop").begin()
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    with pytest.raises(PipelineError, match="another pipeline uses 'shop' and has fenced this one"):
        first.finish()
    reports = run(spark, broker, shop.JOB, tmp_path / "shop")
    assert sum(report.records for report in reports) == MORE.rows + sound(MORE)


def test_jobs_with_avro_values_pass_the_audit(spark: Any, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        create(broker.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, TOTALS), 3)
        fill(broker.bootstrap, PURCHASES, purchases(WORKLOAD, AVRO))
        for job in (shop.JOB, totals.JOB):
            run(spark, broker, job, tmp_path / job.name, values=AVRO)
        assert audit.audit(spark, audit.AuditOptions(broker.bootstrap, with_totals=True, values=AVRO)).is_sound
        assert not audit.audit(spark, audit.AuditOptions(broker.bootstrap)).is_sound


def test_segment_source_and_sparks_kafka_source_give_the_same_rows(spark: Any, broker: Broker, tmp_path: Path) -> None:
    run(spark, broker, shop.JOB, tmp_path / "shop")
    for topic in (PURCHASES, INVOICES, DEAD_LETTERS):
        segments = spark.read.format("ottla").option("path", str(broker.data_dir)).option("subscribe", topic)
        connector = spark.read.format("kafka").options(**source_options(broker.bootstrap, topic)).load()
        # The segment source has an empty list for a record without headers, Spark's Kafka source has null.
        headers = functions.expr("coalesce(headers, array())").alias("headers")
        expected = connector.select(*(headers if column == "headers" else column for column in segments.load().columns))
        assertDataFrameEqual(segments.load(), expected, ignoreNullable=True)
        some = segments.schema("offset LONG, value BINARY").load()
        assert some.columns == ["offset", "value"]
        assertDataFrameEqual(some, connector.select("offset", "value"), ignoreNullable=True)
    for options, says in (
        ({"startingOffset": "5"}, "has no option 'startingoffset'"),
        ({"kafka.isolation.level": "some"}, "read_committed or read_uncommitted"),
        ({"subscribe": "nowhere"}, "no partition of topic 'nowhere'"),
    ):
        with pytest.raises(Exception, match=says):
            segments.options(**options).load().collect()
        segments = spark.read.format("ottla").option("path", str(broker.data_dir)).option("subscribe", INVOICES)


def test_spark_stream_stops_when_records_were_deleted_before_it_read_them(spark: Any, broker: Broker, tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    first = run(spark, broker, shop.JOB, tmp_path / "shop")
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition(PURCHASES, p, -1) for p in range(3)]).values():
        future.result(60)
    fill(broker.bootstrap, PURCHASES, purchases(MORE))
    with pytest.raises(PipelineError, match="retention has removed records that were not read yet"):
        run(spark, broker, shop.JOB, tmp_path / "shop")
    again = run(spark, broker, shop.JOB, tmp_path / "shop", fails_on_data_loss=False)
    assert again[0].batch == first[-1].batch + 1
    assert sum(report.records for report in again) == MORE.rows + sound(MORE)


def test_interrupted_generate_job_writes_every_purchase_once(spark: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption in the second part, the job continues with the third part. Another run writes nothing."""
    monkeypatch.setattr(generating, "BLOCKS_A_PART", 1)
    create(broker.bootstrap, ("made",), 3)
    workload = Workload(25_000)
    options = generating.GenerateOptions(broker.bootstrap, "made", workload)

    def cut_off(report: BatchReport) -> None:
        if report.batch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generating.generate(spark, options, cut_off)
    assert generating.generate(spark, options, lambda report: None) == 5_000
    assert generating.generate(spark, options, lambda report: None) == 0
    assert Counter(record.value for record in broker.records("made")) == Counter(row.value for row in purchases(workload))
    # Another workload has its own progress with the same transactional id.
    other = msgspec.structs.replace(options, workload=Workload(5_000, seed=2))
    assert [generating.generate(spark, workload, lambda report: None) for workload in (other, options, other)] == [5_000, 0, 0]
