"""Checks that every record of the source was processed once: as an invoice and a shipment, or as a dead letter. Also checks totals
and exports."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from ottla.client.security.client_config import Connecting
from ottla.pipeline.jobs import export, totals
from ottla.pipeline.jobs.shop import handled, is_sound
from ottla.pipeline.ledger import Ledger, ledger, torn
from ottla.pipeline.schemas import DEFAULT_TERMS, INVOICE, PURCHASES, SHIPMENT, TOTAL, Terms
from ottla.pipeline.stream import source_options
from ottla.spark.cluster.batch_limits import largest_batches
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.dead_letters import SOURCE, source
from ottla.spark.schemas.formats import JSON, Format
from ottla.spark.worker import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

OFFENDERS_NAMED = 10


class AuditFinding(msgspec.Struct, frozen=True):
    """A rule, the number of cases that break the rule, and some examples. With ``is_note`` the cases are not errors."""

    rule: str
    count: int
    examples: list[str] = []
    is_note: bool = False


class TopicFigures(msgspec.Struct, frozen=True):
    """Counts of a topic's offsets. ``open`` counts records of open transactions, ``unexplained`` offsets that have neither a record
    nor a marker."""

    topic: str
    offsets: int
    committed: int
    aborted: int
    open: int
    markers: int
    unexplained: int


class Audit(msgspec.Struct, frozen=True):
    topics: list[TopicFigures]
    findings: list[AuditFinding]

    @property
    def is_sound(self) -> bool:
        return all(finding.count == 0 or finding.is_note for finding in self.findings)


class AuditOptions(msgspec.Struct, frozen=True):
    """The options of an audit. ``export`` is a directory of Parquet files to compare with ``exported_topic``. ``terms`` are the
    terms of the audited jobs, but the limits are read from the broker."""

    bootstrap: str
    with_totals: bool = False
    export: str | None = None
    exported_topic: str = PURCHASES
    values: Format = JSON
    terms: Terms = DEFAULT_TERMS


def read(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    return spark.read.format("kafka").options(**source_options(bootstrap, topic)).load()


def audit(spark: SparkSession, options: AuditOptions) -> Audit:
    names = options.terms.topics
    topics = [names.source, names.invoices, names.shipments, names.dead_letters, *([names.totals] if options.with_totals else [])]
    options = msgspec.structs.replace(options, terms=msgspec.structs.replace(options.terms, limits=_limits(options)))
    ledgers = {topic: _ledgers(spark, options.bootstrap, topic) for topic in topics}
    everything = [partition_ledger for of_topic in ledgers.values() for partition_ledger in of_topic]
    is_open = [f"{x.topic}-{x.partition}@{e.first_offset}" for x in everything for e in x.entries if not e.outcome]
    gaps = [f"{x.topic}-{x.partition}" for x in everything if x.unexplained]
    findings = [
        _named("transactions that are torn", torn(everything)),
        _named("transactions left open", is_open),
        _named("partitions with unexplained offsets", gaps),
    ]
    each = msgspec.structs.replace(options.terms, deduplicate=False)
    purchases = handled(read(spark, options.bootstrap, names.source), options.values, each)
    purchases = purchases.withColumn("is_sound", is_sound())
    findings += _shop(spark, options, purchases)
    if options.with_totals:
        findings += _totals(spark, options)
    if options.export is not None:
        findings += _export(spark, options)
    return Audit([_figures(topic, of_topic) for topic, of_topic in ledgers.items()], findings)


def _limits(options: AuditOptions) -> dict[str, int]:
    cluster = cluster_client(Connecting(options.bootstrap))
    try:
        return largest_batches(cluster, (options.terms.topics.invoices, options.terms.topics.shipments))
    finally:
        cluster.close()


def _ledgers(spark: SparkSession, bootstrap: str, topic: str) -> list[Ledger]:
    """Return the ledger of each partition. Spark's tasks read the partitions, because a large topic has many batches."""
    cluster = cluster_client(Connecting(bootstrap))
    partitions = sorted(cluster.leader_nodes(topic))
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


def _shop(spark: SparkSession, options: AuditOptions, purchases: DataFrame) -> list[AuditFinding]:
    """Compare invoices, shipments and dead letters with the purchases. A purchase that was sent twice counts as two purchases,
    unless ``deduplicate`` is set."""
    from pyspark.sql import functions as f

    topics = options.terms.topics
    purchases = purchases.select("p", source().alias("source"), "is_sound").cache()
    amount = f.try_multiply(f.col("p.quantity").cast("long"), f.col("p.price_cents")).alias("owed")
    sound = purchases.where("is_sound")
    firsts = _firsts(sound) if options.terms.deduplicate else None

    def outputs(topic: str, schema: str, *more: Column) -> DataFrame:
        value = options.values.read(f.col("value"), schema).alias("v")
        rows = read(spark, options.bootstrap, topic).select(value, _header("source").alias("source"))
        if firsts is not None:
            rows = rows.join(firsts, "source", "left").withColumn("source", f.coalesce("first", "source"))
        of_nothing = f.concat(f.lit("no source, purchase "), f.col("v.purchase").cast("string"))
        return rows.select(f.coalesce("source", of_nothing).alias("source"), *more)

    if firsts is not None:
        sound = sound.join(firsts, "source").where("source = first")
    by_source = _tally(
        "source",
        purchases=sound.select("source", f.col("p.id").alias("bought"), amount),
        invoices=outputs(topics.invoices, INVOICE, f.col("v.purchase").alias("billed"), f.col("v.amount_cents").alias("invoiced")),
        shipments=outputs(topics.shipments, SHIPMENT, f.col("v.purchase").alias("shipped")),
    )

    def differ(*names: str) -> str:
        bounds = [", ".join(f"{bound}_{name}" for name in names) for bound in ("min", "max")]
        return f"least({bounds[0]}) <> greatest({bounds[1]})"

    findings = _findings(
        by_source,
        "source",
        [
            *(rule for name in ("invoices", "shipments") for rule in _handled_once(name)),
            Rule("purchases with an invoice of a wrong amount", f"purchases > 0 AND invoices > 0 AND {differ('owed', 'invoiced')}"),
            Rule("outputs of another purchase", f"purchases > 0 AND {differ('bought', 'billed', 'shipped')}"),
        ],
    )
    again = purchases.where("is_sound").groupBy(f.col("p.id").alias("id")).count().where("count > 1")
    findings.append(_finding("purchase ids that the source has more than once", again, "id", is_note=True))
    letters = read(spark, options.bootstrap, topics.dead_letters).select(_header(SOURCE).alias("source"))
    spoilt = purchases.where("NOT is_sound").select("source")
    findings += _findings(
        _tally("source", spoilt=spoilt, letters=letters),
        "source",
        [
            Rule("dead letters twice", "letters > 1"),
            Rule("malformed purchases without a dead letter", "spoilt > 0 AND letters = 0"),
            Rule("dead letters of no malformed purchase", "letters > 0 AND spoilt = 0", "letters"),
        ],
    )
    purchases.unpersist()
    return findings


def _header(name: str) -> Column:
    """Return the text of the last header of a name. Earlier headers of the name belong to the copied record."""
    from pyspark.sql import functions as f

    return f.get(f.reverse(f.filter("headers", lambda header: header["key"] == name)), f.lit(0))["value"].cast("string")


def _firsts(sound: DataFrame) -> DataFrame:
    """Return the ``source`` of each record, and as ``first`` the source of the first record with the same contents."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return sound.select("source", f.min("source").over(Window.partitionBy("p")).alias("first"))


def _handled_once(name: str) -> list[Rule]:
    return [
        Rule(f"{name} twice", f"{name} > 1"),
        Rule(f"purchases without one of the {name}", f"purchases > 0 AND {name} = 0"),
        Rule(f"{name} of no purchase", f"{name} > 0 AND purchases = 0", name),
    ]


def _totals(spark: SparkSession, options: AuditOptions) -> list[AuditFinding]:
    """Compare the last total of each key with the sum of the purchases. A total may lack purchases that may have been late."""
    from pyspark.sql import functions as f

    names = ("purchases", "quantity", "amount_cents")
    purchases = read(spark, options.bootstrap, options.terms.topics.source)
    expected = totals.summed(purchases, options.values, options.terms).select(_key_of_total(), *names)
    value = options.values.read(f.col("value"), TOTAL)
    last = read(spark, options.bootstrap, options.terms.topics.totals).groupBy(f.col("key").cast("string").alias("key"))
    last_totals = last.agg(f.max_by(value, "offset").alias("v")).select("key", *(f"v.{name}" for name in names))
    both = expected.alias("e").join(last_totals.alias("f"), "key", "full_outer")
    same = [f.col(f"e.{name}").eqNullSafe(f.col(f"f.{name}")) for name in names]
    differing = both.where(~(same[0] & same[1] & same[2])).select(
        "key", *(f.col(f"{side}.{name}").alias(f"{side}_{name}") for side in "ef" for name in names)
    )
    differing = differing.cache()
    if not differing.isEmpty():
        late = totals.may_be_late(purchases, options.values, options.terms).select(_key_of_total(), *names)
        differing = differing.join(late, "key", "left")
    else:
        differing = differing.select("*", *(f.lit(0).alias(name) for name in names))
    # A total that is too low is allowed if the missing amount can be explained by purchases that may have been late.
    missing = [f"e_{name} - coalesce(f_{name}, 0) BETWEEN {int(name == 'purchases')} AND {name}" for name in names]
    differing = differing.withColumn("is_late", f.expr(f"coalesce({' AND '.join(missing)}, false)"))
    late_rows = differing.where("is_late").selectExpr("key", "e_purchases - coalesce(f_purchases, 0) AS count")
    count = late_rows.agg(f.coalesce(f.sum("count"), f.lit(0))).collect()[0][0]
    examples = [str(row[0]) for row in late_rows.select("key").limit(OFFENDERS_NAMED).collect()] if count else []
    return [
        _finding("totals that are not the sum of their purchases", differing.where("NOT is_late").select("key"), "key"),
        AuditFinding("purchases that came too late for their totals, as far as the topic shows", count, examples, is_note=True),
    ]


def _key_of_total() -> Column:
    from pyspark.sql import functions as f

    return f.concat_ws("|", "user", "product", f.col("window_ms").cast("string")).alias("key")


def _export(spark: SparkSession, options: AuditOptions) -> list[AuditFinding]:
    """Compare the rows of the Parquet files with the committed records, by partition and offset."""
    from pyspark.sql import functions as f

    topic, where = options.exported_topic, options.export or ""
    ends = export.ends_of(export.plans(export.Files(spark, where), topic))
    if not ends:
        raise PipelineError(f"{where} has no export of {topic!r}")
    end = f.create_map(*(f.lit(part) for pair in ends.items() for part in pair))[f.col("partition")]
    files = spark.read.parquet(where).select(source().alias("source"))
    records = read(spark, options.bootstrap, topic).where(f.col("offset") < end).select(source().alias("source"))
    return _findings(
        _tally("source", files=files, records=records),
        "source",
        [
            Rule(f"records of {topic} exported twice", "files > 1"),
            Rule(f"records of {topic} not exported", "records > 0 AND files = 0"),
            Rule(f"exported rows that are not a record of {topic}", "files > 0 AND records = 0", "files"),
        ],
    )


class Rule(msgspec.Struct, frozen=True):
    """A rule about the rows of a tally. ``broken`` is an SQL condition for rows that break the rule, ``offences`` an SQL expression
    for the number of cases in such a row."""

    name: str
    broken: str
    offences: str = "1"


def _tally(by: str, **sides: DataFrame) -> DataFrame:
    """Count the values of the column ``by`` in each data frame. The tally has a row per value and a column per data frame.

    For each other column ``x``, whose name must be unique, the tally has columns ``min_x`` and ``max_x``. A tally serves several
    rules, so that Spark shuffles each data frame once.
    """
    from pyspark.sql import functions as f

    numbers = {name: frame.schema[name].dataType for frame in sides.values() for name in frame.columns if name != by}
    rows = [
        frame.select(
            by,
            *(f.lit(int(other == side)).alias(other) for other in sides),
            *(f.col(name) if name in frame.columns else f.lit(None).cast(kind).alias(name) for name, kind in numbers.items()),
        )
        for side, frame in sides.items()
    ]
    counts = [f.sum(side).alias(side) for side in sides]
    bounds = [bound(name).alias(f"{bound.__name__}_{name}") for name in numbers for bound in (f.min, f.max)]
    return reduce(lambda above, below: above.unionByName(below), rows).groupBy(by).agg(*counts, *bounds)


def _findings(tally: DataFrame, by: str, rules: list[Rule]) -> list[AuditFinding]:
    """Return the findings of all rules. One pass over the tally counts all cases, and one pass per broken rule finds examples."""
    from pyspark.sql import functions as f

    tally = tally.cache()
    offences = tally.agg(*(f.expr(f"coalesce(sum(CASE WHEN {rule.broken} THEN {rule.offences} END), 0)") for rule in rules)).first()
    assert offences is not None
    findings = []
    for rule, count in zip(rules, offences, strict=True):
        examples = tally.where(rule.broken).select(by).limit(OFFENDERS_NAMED).collect() if count else []
        findings.append(AuditFinding(rule.name, count, [str(row[0]) for row in examples]))
    tally.unpersist()
    return findings


def _finding(rule: str, offenders: DataFrame, column: str, *, is_note: bool = False) -> AuditFinding:
    examples = offenders.select(column).limit(OFFENDERS_NAMED).collect()
    count = offenders.count() if len(examples) == OFFENDERS_NAMED else len(examples)
    return AuditFinding(rule, count, [str(row[0]) for row in examples], is_note)


def _named(rule: str, offenders: list[str]) -> AuditFinding:
    return AuditFinding(rule, len(offenders), offenders[:OFFENDERS_NAMED])
