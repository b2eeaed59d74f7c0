"""The counts of a sink in Spark's metrics system, so that every configured reporter (Prometheus' servlet, JMX) shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.spark.sink.metrics import BatchReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.sink.progress_listener import StreamProgress


class _Source:
    """Implements Spark's trait ``Source``: a name and a registry of Dropwizard metrics."""

    def __init__(self, name: str, registry: Any) -> None:
        self._name = name
        self._registry = registry

    def sourceName(self) -> str:
        return self._name

    def metricRegistry(self) -> Any:
        return self._registry

    def equals(self, other: object) -> bool:
        """Spark calls this only to remove a source, and never removes this source."""
        return False

    def hashCode(self) -> int:
        return hash(self._name) & 0x7FFFFFFF

    def toString(self) -> str:
        return self._name

    class Java:
        """py4j finds the implemented Java interface in a class with this name."""

        implements = ["org.apache.spark.metrics.source.Source"]


class Gauges:
    """Registers the metrics ``ottla.TRANSACTIONAL_ID.*``: counters of records, bytes, batches, replays and aborted transactions,
    also by topic; gauges of the producer epoch and the last batch; a histogram of commit times in ms.

    A listener (`progress_listener`) adds counters of late rows, repeated rows and dead letters, and a gauge of the lag in offsets.
    """

    def __init__(self, spark: SparkSession, transactional_id: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        metrics = jvm.com.codahale.metrics
        self._registry = metrics.MetricRegistry()
        self._epoch = self._registry.register("epoch", metrics.DefaultSettableGauge(-1))
        self._last_batch = self._registry.register("last_batch", metrics.DefaultSettableGauge(-1))
        self._behind = self._registry.register("behind", metrics.DefaultSettableGauge(-1))
        self._counters: dict[str, Any] = {}
        self._commit_ms = self._registry.histogram("commit_ms")
        _metrics_system(jvm).registerSource(_Source(f"ottla.{transactional_id}", self._registry))

    def add(self, report: BatchReport) -> None:
        self._count("replays" if report.is_replay else "batches")
        self._count("records", report.records)
        self._count("bytes", report.bytes)
        for topic, records in report.by_topic.items():
            self._count(f"records.{topic}", records)
        if not report.is_replay:
            self._commit_ms.update(round(report.commit_ms))
        self._epoch.setValue(report.epoch)
        self._last_batch.setValue(report.batch)

    def add_progress(self, progress: StreamProgress) -> None:
        self._count("late", progress.late)
        self._count("repeated", progress.repeated)
        self._count("dead_letters", progress.dead_letters)
        self._behind.setValue(progress.behind)

    def add_aborted(self) -> None:
        self._count("aborted")

    def _count(self, name: str, more: int = 1) -> None:
        counter = self._counters.get(name)
        if counter is None:
            counter = self._counters[name] = self._registry.counter(name)
        counter.inc(more)


def _metrics_system(jvm: Any) -> Any:
    """Return ``SparkEnv.get().metricsSystem()``.

    This call by py4j would look up all methods of SparkEnv and the classes in their signatures. PySpark 4.3 from PyPI lacks one of
    these classes (com.google.protobuf.MessageOrBuilder), so the call would end the stream. A method handle looks up a single
    method.
    """
    class_of, invoke = jvm.java.lang.Class.forName, jvm.java.lang.invoke
    environment, system = class_of("org.apache.spark.SparkEnv"), class_of("org.apache.spark.metrics.MetricsSystem")
    lookup, typed = invoke.MethodHandles.publicLookup(), invoke.MethodType.methodType
    running = lookup.findStatic(environment, "get", typed(environment))
    of_running = lookup.findVirtual(environment, "metricsSystem", typed(system))
    return invoke.MethodHandles.filterReturnValue(running, of_running).invokeWithArguments(jvm.java.util.ArrayList())


_MADE: dict[tuple[str, str], Gauges] = {}


def gauges_of(spark: SparkSession, transactional_id: str) -> Gauges:
    """Return the gauges of a transactional id. An application has one object per id, so that counters continue after a restart of
    the stream."""
    key = (spark.sparkContext.applicationId, transactional_id)
    if key not in _MADE:
        _MADE[key] = Gauges(spark, transactional_id)
    return _MADE[key]
