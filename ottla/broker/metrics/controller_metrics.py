"""The metrics of a controller, under the names that the JMX exporter gives to Kafka's metrics (ControllerMetadataMetrics)."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.metrics.controller_report import ControllerReport


def controller_metrics(report: ControllerReport) -> list[Metric]:
    """All metrics of an active controller."""
    brokers = report.state.registrations.brokers.values()
    fenced = sum(b.is_fenced for b in brokers)
    stopping = sum(b.is_in_controlled_shutdown and not b.is_fenced for b in brokers)
    # The only broker of a cluster is not registered.
    active = 1 if report.state.is_alone else len(brokers) - fenced - stopping
    partitions = [p for topic in report.state.topics.values() for p in topic.partitions]
    offline = sum(not p.has_leader for p in partitions) + report.damaged_partitions
    imbalanced = sum(p.leader != p.preferred_replica for p in partitions)
    gauges = [
        ("activecontroller", "1 on the active controller, else 0", 1),
        ("activebroker", "Brokers that are neither fenced nor in controlled shutdown", active),
        ("fencedbroker", "Fenced brokers", fenced),
        ("controlledshutdownbroker", "Brokers in controlled shutdown", stopping),
        ("globaltopic", "Topics of the cluster", len(report.state.topics)),
        ("globalpartition", "Partitions of the cluster", len(partitions)),
        ("offlinepartitions", "Partitions without a leader or with a damaged log", offline),
        ("preferredreplicaimbalance", "Partitions that are not led by their preferred replica", imbalanced),
    ]
    name = "kafka_controller_kafkacontroller"
    metrics: list[Metric] = [GaugeMetricFamily(f"{name}_{what}count", text, value=value) for what, text, value in gauges]
    offsets = [
        ("lastappliedrecordoffset", "Offset of the last record of the metadata log that is applied", report.end_offset - 1),
        ("lastcommittedrecordoffset", "Offset of the last record of the metadata log that is committed", report.high_watermark - 1),
    ]
    metrics += [GaugeMetricFamily(f"{name}_{what}", text, value=value) for what, text, value in offsets]
    elections = [
        ("uncleanleaderelections", "Unclean elections: the new leader may lack committed records", report.unclean_elections),
        (
            "electionfromeligibleleaderreplicas",
            "Elections of a leader from the eligible leader replicas (KIP-966)",
            report.eligible_elections,
        ),
    ]
    stats = "kafka_controller_controllerstats"
    metrics += [CounterMetricFamily(f"{stats}_{what}", text, value=value) for what, text, value in elections]
    return metrics
