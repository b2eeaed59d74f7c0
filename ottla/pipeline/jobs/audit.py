"""Whether the topics say the same: every purchase once, as an invoice and a shipment or as a dead letter; totals; exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ottla.pipeline.errors import PipelineError
from ottla.pipeline.formats import JSON, Format
from ottla.pipeline.jobs import export, totals
from ottla.pipeline.jobs.shop import is_sound, parsed
from ottla.pipeline.ledger import Ledger, ledger, torn
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICE, INVOICES, PURCHASES, SHIPMENT, SHIPMENTS, TOTAL, TOTALS
from ottla.pipeline.stream import source_options
from ottla.pipeline.wire import ClusterClient
from ottla.pipeline.worker import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

OFFENDERS_NAMED = 10


class Finding(msgspec.Struct, frozen=True):
    """A rule, how many break it, and some that do."""

    rule: str
    count: int
    examples: list[str] = []


class TopicFigures(msgspec.Struct, frozen=True):
    """What lies at the offsets of a topic. ``open`` waits for its transaction's end; ``unexplained`` is nothing of these."""

    topic: str
    offsets: int
    committed: int
    aborted: int
    open: int
    markers: int
    unexplained: int


class Audit(msgspec.Struct, frozen=True):
    topics: list[TopicFigures]
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        return all(finding.count == 0 for finding in self.findings)


class AuditOptions(msgspec.Struct, frozen=True):
    """``with_totals`` holds the totals against the purchases, ``export`` a directory of Parquet files against its topic."""

    bootstrap: str
    with_totals: bool = False
    export: str | None = None
    exported_topic: str = PURCHASES
    values: Format = JSON


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """All of a topic as it is now."""
    return spark.read.format("kafka").options(**source_options(bootstrap, topic)).load()


def audit(spark: SparkSession, options: AuditOptions) -> Audit:
    topics = [PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS, *([TOTALS] if options.with_totals else [])]
    ledgers = {topic: _ledgers(spark, options.bootstrap, topic) for topic in topics}
    everything = [partition_ledger for of_topic in ledgers.values() for partition_ledger in of_topic]
    is_open = [f"{x.topic}-{x.partition}@{e.first_offset}" for x in everything for e in x.entries if not e.outcome]
    gaps = [f"{x.topic}-{x.partition}" for x in everything if x.unexplained]
    findings = [
        _named("transactions that are torn", torn(everything)),
        _named("transactions left open", is_open),
        _named("partitions with unexplained offsets", gaps),
    ]
    purchases = parsed(read(spark, options.bootstrap, PURCHASES), options.values).withColumn("is_sound", is_sound())
    findings += _shop(spark, options, purchases)
    if options.with_totals:
        findings += _totals(spark, options)
    if options.export is not None:
        findings += _export(spark, options)
    return Audit([_figures(topic, of_topic) for topic, of_topic in ledgers.items()], findings)


def _ledgers(spark: SparkSession, bootstrap: str, topic: str) -> list[Ledger]:
    """A task a partition: at scale, batches are many."""
    cluster = ClusterClient(bootstrap)
    partitions = sorted(cluster.leaders(topic))
    cluster.close()
    rows = spark.sparkContext.parallelize(partitions, len(partitions)).map(_ledger_of(bootstrap, topic))
    return [msgspec.msgpack.decode(row, type=Ledger) for row in rows.collect()]


def _ledger_of(bootstrap: str, topic: str) -> Callable[[int], bytes]:
    def encoded_ledger(partition: int) -> bytes:
        prepare()
        return msgspec.msgpack.encode(ledger(bootstrap, topic, partition))

    return encoded_ledger


def _figures(topic: str, ledgers: list[Ledger]) -> TopicFigures:
    return TopicFigures(
        topic,
        sum(partition_ledger.end - partition_ledger.start for partition_ledger in ledgers),
        sum(partition_ledger.committed for partition_ledger in ledgers),
        sum(partition_ledger.records("abort") for partition_ledger in ledgers),
        sum(partition_ledger.records("") for partition_ledger in ledgers),
        sum(partition_ledger.markers for partition_ledger in ledgers),
        sum(partition_ledger.unexplained for partition_ledger in ledgers),
    )


def _shop(spark: SparkSession, options: AuditOptions, purchases: DataFrame) -> list[Finding]:
    from pyspark.sql import functions as f

    def decoded(topic: str, schema: str) -> DataFrame:
        value = options.values.read(f.col("value"), schema)
        return read(spark, options.bootstrap, topic).select(value.alias("v")).select("v.*")

    sound = purchases.where("is_sound").select("p.*").cache()
    spoilt = purchases.where("NOT is_sound").select(_source().alias("source"))
    invoices, shipments = decoded(INVOICES, INVOICE).cache(), decoded(SHIPMENTS, SHIPMENT).cache()
    headers = f.expr("CAST(get(filter(headers, h -> h.key = 'source'), 0).value AS STRING)")
    letters = read(spark, options.bootstrap, DEAD_LETTERS).select(headers.alias("source")).cache()
    findings = []
    for name, frame in ((INVOICES, invoices), (SHIPMENTS, shipments)):
        ids, known = frame.select(f.col("purchase").alias("id")), sound.select("id").distinct()
        findings.append(_finding(f"{name} twice", _repeated(ids, "id"), "id"))
        findings.append(_finding(f"purchases without one of the {name}", known.join(ids, "id", "left_anti"), "id"))
        findings.append(_finding(f"{name} of no purchase", ids.join(known, "id", "left_anti"), "id"))
    amounts = sound.select("id", (f.col("quantity") * f.col("price_cents")).alias("amount_cents"))
    wrong = invoices.select(f.col("purchase").alias("id"), f.col("amount_cents").alias("invoiced")).join(amounts, "id")
    findings.append(_finding("invoices of a wrong amount", wrong.where("invoiced <> amount_cents"), "id"))
    findings.append(_finding("dead letters twice", _repeated(letters, "source"), "source"))
    findings.append(_finding("malformed purchases without a dead letter", spoilt.join(letters, "source", "left_anti"), "source"))
    findings.append(_finding("dead letters of no malformed purchase", letters.join(spoilt, "source", "left_anti"), "source"))
    for frame in (sound, invoices, shipments, letters):
        frame.unpersist()
    return findings


def _totals(spark: SparkSession, options: AuditOptions) -> list[Finding]:
    """The last total of each key against the sum of its purchases."""
    from pyspark.sql import functions as f

    named = f.concat_ws("|", "user", "product", f.col("window_ms").cast("string")).alias("key")
    expected = totals.summed(read(spark, options.bootstrap, PURCHASES), options.values).select(
        named, "purchases", "quantity", "amount_cents"
    )
    value = options.values.read(f.col("value"), TOTAL)
    last = read(spark, options.bootstrap, TOTALS).groupBy(f.col("key").cast("string").alias("key"))
    last_totals = last.agg(f.max_by(value, "offset").alias("v")).select("key", "v.purchases", "v.quantity", "v.amount_cents")
    both = expected.alias("e").join(last_totals.alias("f"), "key", "full_outer")
    same = [f.col(f"e.{name}").eqNullSafe(f.col(f"f.{name}")) for name in ("purchases", "quantity", "amount_cents")]
    return [
        _finding("totals that are not the sum of their purchases", both.where(~(same[0] & same[1] & same[2])).select("key"), "key")
    ]


def _export(spark: SparkSession, options: AuditOptions) -> list[Finding]:
    """Rows of the files against what is committed now, by where they come from."""
    from pyspark.sql import functions as f

    topic, where = options.exported_topic, options.export or ""
    ends = export.ends_of(export.plans(export.Files(spark, where), topic))
    if not ends:
        raise PipelineError(f"{where} holds no export of {topic!r}")
    end = f.create_map(*(f.lit(part) for pair in ends.items() for part in pair))[f.col("partition")]
    files = spark.read.parquet(where).select(_source().alias("source")).cache()
    records = read(spark, options.bootstrap, topic).where(f.col("offset") < end).select(_source().alias("source")).cache()
    findings = [
        _finding(f"records of {topic} exported twice", _repeated(files, "source"), "source"),
        _finding(f"records of {topic} not exported", records.join(files, "source", "left_anti"), "source"),
        _finding(f"exported rows that are no record of {topic}", files.join(records, "source", "left_anti"), "source"),
    ]
    for frame in (files, records):
        frame.unpersist()
    return findings


def _source() -> Column:
    """Where a record is: topic-partition@offset."""
    from pyspark.sql import functions as f

    return f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")


def _repeated(frame: DataFrame, column: str) -> DataFrame:
    return frame.groupBy(column).count().where("count > 1")


def _finding(rule: str, offenders: DataFrame, column: str) -> Finding:
    examples = offenders.select(column).limit(OFFENDERS_NAMED).collect()
    count = offenders.count() if len(examples) == OFFENDERS_NAMED else len(examples)
    return Finding(rule, count, [str(row[0]) for row in examples])


def _named(rule: str, offenders: list[str]) -> Finding:
    return Finding(rule, len(offenders), offenders[:OFFENDERS_NAMED])
