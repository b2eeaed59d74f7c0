"""Whether the shop's topics say the same: every purchase once, as an invoice and a shipment or as a dead letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pipeline.jobs.shop import is_sound, parsed
from pipeline.schemas import DEAD_LETTERS, INVOICE, INVOICES, PURCHASES, SHIPMENT, SHIPMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFENDERS_NAMED = 10


class Finding(msgspec.Struct, frozen=True):
    """A rule, how many break it, and some that do."""

    rule: str
    count: int
    examples: list[str] = []


class TopicFigures(msgspec.Struct, frozen=True):
    """Offsets of a topic: what a committed reader gets, what was aborted, and what is neither, the markers."""

    topic: str
    offsets: int
    committed: int
    aborted: int

    @property
    def markers(self) -> int:
        return self.offsets - self.committed - self.aborted


class Audit(msgspec.Struct, frozen=True):
    topics: list[TopicFigures]
    findings: list[Finding]

    @property
    def is_sound(self) -> bool:
        return all(finding.count == 0 for finding in self.findings)


def read(spark: SparkSession, bootstrap: str, topic: str, *, committed: bool = True) -> DataFrame:
    """All of a topic as it is now."""
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
        "kafka.max.poll.records": "50000",
    }
    return spark.read.format("kafka").options(**options).load()


def audit(spark: SparkSession, bootstrap: str) -> Audit:
    from pyspark.sql import functions as f

    def decoded(topic: str, schema: str) -> DataFrame:
        value = f.from_json(f.col("value").cast("string"), schema)
        return read(spark, bootstrap, topic).select(value.alias("v")).select("v.*")

    purchases = parsed(read(spark, bootstrap, PURCHASES)).withColumn("is_sound", is_sound())
    sound = purchases.where("is_sound").select("p.*").cache()
    source = f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")
    spoilt = purchases.where("NOT is_sound").select(source.alias("source"))
    invoices, shipments = decoded(INVOICES, INVOICE).cache(), decoded(SHIPMENTS, SHIPMENT).cache()
    headers = f.expr("CAST(filter(headers, h -> h.key = 'source')[0].value AS STRING)")
    letters = read(spark, bootstrap, DEAD_LETTERS).select(headers.alias("source")).cache()
    findings = []
    for name, frame in ((INVOICES, invoices), (SHIPMENTS, shipments)):
        ids, known = frame.select(f.col("purchase").alias("id")), sound.select("id").distinct()
        findings.append(_finding(f"{name} twice", ids.groupBy("id").count().where("count > 1"), "id"))
        findings.append(_finding(f"purchases without one of the {name}", known.join(ids, "id", "left_anti"), "id"))
        findings.append(_finding(f"{name} of no purchase", ids.join(known, "id", "left_anti"), "id"))
    amounts = sound.select("id", (f.col("quantity") * f.col("price_cents")).alias("amount_cents"))
    wrong = invoices.select(f.col("purchase").alias("id"), f.col("amount_cents").alias("invoiced")).join(amounts, "id")
    findings.append(_finding("invoices of a wrong amount", wrong.where("invoiced <> amount_cents"), "id"))
    findings.append(_finding("dead letters twice", letters.groupBy("source").count().where("count > 1"), "source"))
    findings.append(_finding("malformed purchases without a dead letter", spoilt.join(letters, "source", "left_anti"), "source"))
    findings.append(_finding("dead letters of no malformed purchase", letters.join(spoilt, "source", "left_anti"), "source"))
    topics = [_figures(spark, bootstrap, t) for t in (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS)]
    return Audit(topics, findings)


def _finding(rule: str, offenders: DataFrame, column: str) -> Finding:
    found = offenders.select(column).limit(OFFENDERS_NAMED).collect()
    count = offenders.count() if len(found) == OFFENDERS_NAMED else len(found)
    return Finding(rule, count, [str(row[0]) for row in found])


def _figures(spark: SparkSession, bootstrap: str, topic: str) -> TopicFigures:
    from pipeline.wire import Cluster

    cluster = Cluster(bootstrap)
    offsets = sum(end - start for start, end in cluster.ranges(topic).values())
    cluster.close()
    committed = read(spark, bootstrap, topic).count()
    return TopicFigures(topic, offsets, committed, read(spark, bootstrap, topic, committed=False).count() - committed)
