"""Proves that each record is accounted for once, from committed records only (read_committed).

The rules of each stage are functions of static frames, so that they can be tested with planted errors:

- Each input has exactly one outcome: an output, a late row, a dead letter, or a removed repetition.
- Sums are equal: an invoice has its order's amount, a total is the sum of its invoices, a settlement has its payment's amount.
- Transactions are whole: each topic has exactly the records that a batch's receipt counts, each batch has one receipt, no batch is
  missing, and no transaction is open.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from shop.findings import Audit, Finding, Stage, broken, sums, tally
from shop.inputs import MINUTE_MS, Input, opened
from shop.jobs.revenue import window_start_ms
from shop.schemas import (
    BATCH,
    CLEAN_ORDERS,
    DEAD_LETTERS,
    INVOICE,
    INVOICES,
    LATE_INVOICES,
    LATE_ORDERS,
    LATE_SETTLEMENTS,
    ORDER,
    ORDERS,
    PAYMENT,
    PAYMENT_SOURCE,
    PAYMENTS,
    RECEIPT,
    RECEIPTS,
    REVENUE,
    SETTLEMENT,
    SETTLEMENTS,
    SHIPMENT,
    SHIPMENTS,
    SOURCE,
    TOTAL,
    WRITTEN,
)
from shop.settings import Settings
from shop.topics import client

ROUNDING_MS: Final = 1_000
OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


def run(settings: Settings) -> Audit:
    """Audit all jobs after they have read their topics. Raises `PipelineError`."""
    from shop.running import started_session

    return audit(started_session(settings), settings)


def audit(spark: SparkSession, settings: Settings) -> Audit:
    def read(topic: str, schema: str) -> Input:
        one = opened(spark, topic, schema, settings, streams=False)
        return Input(one.good.cache(), one.letters.cache())

    def outputs(topic: str, schema: str) -> DataFrame:
        return written(spark, topic, schema, settings)

    orders, clean = read(ORDERS, ORDER), read(CLEAN_ORDERS, ORDER)
    invoices, payments = read(INVOICES, INVOICE), read(PAYMENTS, PAYMENT)
    letters = records(spark, DEAD_LETTERS, settings).select(header("ottla.source").alias("source"), header(BATCH).alias("batch"))
    passed = last_watermark(receipts_of(spark, settings), "settlements.settlements")
    late_settlements = outputs(LATE_SETTLEMENTS, ORDER)
    stages = (
        distinct_stage(orders, outputs(CLEAN_ORDERS, ORDER), outputs(LATE_ORDERS, ORDER), letters),
        invoices_stage(clean, outputs(INVOICES, INVOICE), outputs(SHIPMENTS, SHIPMENT), letters),
        revenue_stage(invoices, last_totals(outputs(REVENUE, TOTAL)), outputs(LATE_INVOICES, INVOICE), letters, settings),
        settlements_stage(clean, payments, outputs(SETTLEMENTS, SETTLEMENT), late_settlements, letters, passed, settings),
        transactions_stage(spark, settings),
    )
    for one in (orders, clean, invoices, payments):
        one.good.unpersist()
        one.letters.unpersist()
    return Audit(stages)


def records(spark: SparkSession, topic: str, settings: Settings) -> DataFrame:
    options = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    return spark.read.format("kafka").options(**settings.connection, **options).load()


def header(name: str) -> Column:
    """Return the text of the last header of a name. Earlier headers of the name belong to the copied record."""
    found = f.filter(f.coalesce("headers", f.array().cast("array<struct<key:string,value:binary>>")), lambda h: h["key"] == name)
    return f.get(f.reverse(found), f.lit(0))["value"].cast("string")


def written(spark: SparkSession, topic: str, schema: str, settings: Settings) -> DataFrame:
    """Return the decoded value as ``v``, the position of the input as ``source``, the position of a payment as ``paid_source``, the
    ``offset``, and the record's ``key``."""
    value = f.from_json(f.col("value").cast("string"), schema).alias("v")
    sources = (header(SOURCE).alias("source"), header(PAYMENT_SOURCE).alias("paid_source"))
    return records(spark, topic, settings).select(value, *sources, "offset", f.col("key").cast("string").alias("key"))


def receipts_of(spark: SparkSession, settings: Settings) -> DataFrame:
    value = f.from_json(f.col("value").cast("string"), RECEIPT).alias("v")
    return records(spark, RECEIPTS, settings).select(value).select("v.*")


def last_watermark(receipts: DataFrame, sink: str) -> int:
    """Return the watermark, in ms, up to which Spark has removed the state of a sink's stream."""
    return int(receipts.where(f.col("sink") == sink).agg(f.max("watermark_ms")).collect()[0][0] or 0)


def letters_of(letters: DataFrame, job: str) -> DataFrame:
    """Return the positions of the dead letters of one job, because several jobs may refuse the same record."""
    return letters.where(f.col("batch").startswith(f"{job}.")).select("source")


def distinct_stage(orders: Input, clean: DataFrame, late: DataFrame, letters: DataFrame) -> Stage:
    """Check that each order record is a clean order, a repetition, a late order, or a dead letter."""
    order = f.concat_ws(" at ", f.col("row.id"), f.col("row.at_ms").cast("string")).alias("order")
    outcomes = tally(
        "source",
        valid=orders.good.select("source"),
        malformed=orders.letters.select(header("ottla.source").alias("source")),
        clean=clean.select("source"),
        late=late.select("source"),
        letters=letters_of(letters, "distinct"),
    ).cache()
    late_sources = late.select(f.col("source").alias("late_source"), f.lit(1).alias("is_late")).distinct()
    judged_orders = orders.good.join(late_sources, f.col("source") == f.col("late_source"), "left")
    by_order = tally(
        "order",
        sent=judged_orders.select(order),
        late=judged_orders.where("is_late = 1").select(order),
        clean=clean.select(f.concat_ws(" at ", f.col("v.id"), f.col("v.at_ms").cast("string")).alias("order")),
    ).cache()
    findings = broken(
        outcomes,
        "source",
        {
            "order records with two outcomes": "clean + late + letters > 1",
            "malformed orders without a dead letter": "malformed > 0 AND letters = 0",
            "dead letters of valid orders": "valid > 0 AND letters > 0",
            "outputs of no order record": "valid + malformed = 0",
        },
    ) + broken(
        by_order,
        "order",
        {
            "orders twice": "clean > 1",
            "orders lost, or not processed yet": "sent > 0 AND clean = 0 AND late < sent",
            "orders that were never sent": "sent = 0",
        },
    )
    inputs = sums(outcomes, inputs="sum(valid + malformed)")["inputs"]
    ends = sums(by_order, clean="sum(clean)", repeated="sum(greatest(sent - late - clean, 0))", late="sum(late)")
    return Stage("distinct", inputs, {**ends, "dead letters": sums(outcomes, letters="sum(letters)")["letters"]}, findings)


def invoices_stage(clean: Input, invoices: DataFrame, shipments: DataFrame, letters: DataFrame) -> Stage:
    """Check that each clean order has an invoice of its amount and a shipment, or a dead letter."""
    owed = (f.col("row.quantity").cast("long") * f.col("row.cents")).alias("owed")
    outcomes = tally(
        "source",
        clean=clean.good.select("source", owed, f.col("row.id").alias("ordered")),
        malformed=clean.letters.select(header("ottla.source").alias("source")),
        invoices=invoices.select("source", f.col("v.cents").alias("billed"), f.col("v.order").alias("invoiced")),
        shipments=shipments.select("source", f.col("v.order").alias("shipped")),
        letters=letters_of(letters, "invoices"),
    ).cache()
    is_same = "least(min_ordered, min_invoiced, min_shipped) = greatest(max_ordered, max_invoiced, max_shipped)"
    findings = broken(
        outcomes,
        "source",
        {
            "invoices twice": "invoices > 1",
            "shipments twice": "shipments > 1",
            "orders without an invoice or a dead letter": "clean + malformed > 0 AND invoices + letters = 0",
            "invoices without a shipment, or the reverse": "invoices <> shipments",
            "orders with an invoice and a dead letter, or two": "invoices + letters > 1",
            "invoices of a wrong amount": "clean > 0 AND invoices > 0 AND (min_billed <> max_owed OR max_billed <> max_owed)",
            "outputs of another order": f"clean > 0 AND invoices > 0 AND NOT {is_same}",
            "outputs of no order": "clean + malformed = 0",
        },
    )
    ends = sums(outcomes, inputs="sum(clean + malformed)", invoices="sum(invoices)", dead_letters="sum(letters)")
    return Stage("invoices", ends.pop("inputs"), ends, findings)


def last_totals(totals: DataFrame) -> DataFrame:
    """Return the last total of each key. A key has one partition, so its offsets are in order."""
    return totals.groupBy("key").agg(f.max_by("v", "offset").alias("v"))


def revenue_stage(invoices: Input, totals: DataFrame, late: DataFrame, letters: DataFrame, settings: Settings) -> Stage:
    """Check that each invoice is in a total or late, and that each total is the sum of its invoices in time."""
    outcomes = tally(
        "source",
        invoices=invoices.good.select("source"),
        malformed=invoices.letters.select(header("ottla.source").alias("source")),
        late=late.select("source"),
        letters=letters_of(letters, "revenue"),
    ).cache()
    late_sources = late.select("source").distinct()
    in_time = invoices.good.join(late_sources, "source", "left_anti")
    key = f.concat_ws("|", window_start_ms(f.col("row.at_ms"), settings).cast("string"), f.col("row.category")).alias("key")
    expected = in_time.select(key, f.col("row.cents").alias("cents")).groupBy("key")
    expected = expected.agg(f.count("*").alias("due"), f.sum("cents").alias("due_cents"))
    given = totals.select("key", f.col("v.invoices").alias("counted"), f.col("v.cents").alias("counted_cents"))
    compared = expected.join(given, "key", "full_outer").na.fill(0).cache()
    findings = broken(
        outcomes,
        "source",
        {
            "late invoices twice": "late > 1",
            "late invoices of no invoice": "late > 0 AND invoices = 0",
            "malformed invoices without one dead letter": "malformed > 0 AND letters <> 1",
        },
    ) + broken(compared, "key", {"totals that are not the sum of their invoices": "due <> counted OR due_cents <> counted_cents"})
    ends = sums(outcomes, inputs="sum(invoices + malformed)", late="sum(late)", dead_letters="sum(letters)")
    return Stage("revenue", ends.pop("inputs"), {**sums(compared, in_totals="sum(counted)"), **ends}, findings)


def settlements_stage(
    orders: Input, payments: Input, settled: DataFrame, late: DataFrame, letters: DataFrame, watermark_ms: int, settings: Settings
) -> Stage:
    """Check that each order and payment is settled, late, or open because the watermark has not passed the time limit."""
    # Spark rounds the time up to which it removes state, so state just before the watermark may still be open.
    passed_ms = watermark_ms - ROUNDING_MS
    of_orders, order_findings = _settled_orders(orders, settled, late, passed_ms - settings.pay_within_minutes * MINUTE_MS)
    of_payments, payment_findings = _settled_payments(payments, settled, late, passed_ms)
    malformed = [one.letters.select(header("ottla.source").alias("source")) for one in (orders, payments)]
    refused = tally("source", malformed=reduce(DataFrame.unionByName, malformed), letters=letters_of(letters, "settlements"))
    findings = broken(refused, "source", {"malformed records without one dead letter": "malformed <> letters"})
    outcomes = {
        "orders paid": of_orders["paid"],
        "unpaid": of_orders["unpaid"],
        "payments matched": of_payments["matched"],
        "unmatched": of_payments["unmatched"],
        "late": of_orders["late"] + of_payments["late"],
        "open": of_orders["open"] + of_payments["open"],
    }
    inputs = of_orders["inputs"] + of_payments["inputs"]
    return Stage("settlements", inputs, outcomes, (*order_findings, *payment_findings, *findings))


Judged = tuple[dict[str, int], tuple[Finding, ...]]
"""The number of inputs by outcome, and the broken rules."""


def _settled_orders(orders: Input, settled: DataFrame, late: DataFrame, passed_ms: int) -> Judged:
    """Audit the orders. An order before ``passed_ms`` cannot be open."""
    counted = tally(
        "source",
        orders=orders.good.select("source", f.col("row.at_ms").alias("at_ms")),
        paid=settled.where("v.status = 'paid'").select("source"),
        unpaid=settled.where("v.status = 'unpaid'").select("source"),
        late=late.where(f.col("source").startswith(f"{CLEAN_ORDERS}-")).select("source"),
    ).cache()
    has_none = "orders > 0 AND paid + unpaid + late = 0"
    rules = {
        "orders settled twice": "unpaid > 1 OR late > 1 OR int(unpaid > 0) + int(paid > 0) + int(late > 0) > 1",
        "orders not settled in time": f"{has_none} AND max_at_ms < {passed_ms}",
        "settlements of no order": "orders = 0",
    }
    ends = {"inputs": "sum(orders)", "paid": "sum(int(paid > 0))", "unpaid": "sum(unpaid)", "late": "sum(late)"}
    return sums(counted, **ends, open=_count_of(has_none)), broken(counted, "source", rules)


def _settled_payments(payments: Input, settled: DataFrame, late: DataFrame, passed_ms: int) -> Judged:
    """Audit the payments. A payment before ``passed_ms`` cannot be open."""
    got = (f.col("paid_source").alias("source"), f.col("v.paid").alias("got"))
    counted = tally(
        "source",
        payments=payments.good.select("source", f.col("row.at_ms").alias("at_ms"), f.col("row.cents").alias("cents")),
        paid=settled.where("v.status = 'paid'").select(*got),
        unmatched=settled.where("v.status = 'unmatched'").select(*got),
        late=late.where(f.col("source").startswith(f"{PAYMENTS}-")).select("source"),
    ).cache()
    has_none = "payments > 0 AND paid + unmatched + late = 0"
    rules = {
        "payments settled twice": "paid + unmatched + late > 1",
        "payments not settled in time": f"{has_none} AND max_at_ms < {passed_ms}",
        "settlements of no payment": "payments = 0",
        "settlements of a wrong amount": "payments > 0 AND paid + unmatched > 0 AND max_got <> max_cents",
    }
    ends = {"inputs": "sum(payments)", "matched": "sum(paid)", "unmatched": "sum(unmatched)", "late": "sum(late)"}
    return sums(counted, **ends, open=_count_of(has_none)), broken(counted, "source", rules)


def _count_of(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"


def transactions_stage(spark: SparkSession, settings: Settings) -> Stage:
    """Compare the receipts with the records of all topics, and look for open transactions."""
    labelled = [
        records(spark, topic, settings).select(header(BATCH).alias("batch"), f.lit(topic).alias("topic")) for topic in WRITTEN
    ]
    with client(settings) as cluster:
        is_open = [one.transactional_id for one in cluster.transactions(states=OPEN_STATES)]
    ours = tuple(sorted(one for one in is_open if one.startswith(f"{settings.name}.")))
    stage = receipts_stage(receipts_of(spark, settings), reduce(DataFrame.unionByName, labelled))
    if not ours:
        return stage
    return Stage(stage.name, stage.inputs, stage.outcomes, (*stage.findings, Finding("open transactions", len(ours), ours)))


def receipts_stage(receipts: DataFrame, labelled: DataFrame) -> Stage:
    """Compare receipts with records. ``labelled`` has each record's ``topic``, and as ``batch`` the text of its header."""
    label = f.concat_ws("/", "sink", "stream", f.col("batch").cast("string"))
    receipts = receipts.withColumn("label", label).cache()
    counts = receipts.select("label", f.explode("records").alias("topic", "count"))
    place = f.concat_ws(" in ", "label", "topic").alias("place")
    expected = counts.groupBy(place).agg(f.sum("count").alias("due"))
    there = (
        labelled.select(f.coalesce("batch", f.lit("no batch")).alias("label"), "topic")
        .groupBy(place)
        .agg(f.count("*").alias("there"))
    )
    compared = expected.join(there, "place", "full_outer").na.fill(0).cache()
    streams = receipts.groupBy("sink", "stream").agg(
        f.count_distinct("batch").alias("batches"), (f.max("batch") + 1).alias("due"), f.count("*").alias("receipts")
    )
    streams = streams.withColumn("place", f.concat_ws("/", "sink", "stream"))
    findings = broken(compared, "place", {"transactions that are torn": "due <> there"}) + broken(
        streams, "place", {"batches missing": "batches <> due", "batches committed twice": "receipts > batches"}
    )
    return Stage("transactions", receipts.count(), sums(compared, records="sum(there)"), findings)
