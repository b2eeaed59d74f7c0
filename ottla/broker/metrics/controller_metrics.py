"""The metrics of a controller, under the names that the JMX exporter gives to Kafka's metrics (ControllerMetadataMetrics)."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ottla.broker.metrics.controller_report import ControllerReport
from ottla.coordinator.metadata.broker_registration import BrokerRegistration

FENCED, CONTROLLED_SHUTDOWN, ACTIVE = 10, 20, 30
"""Values of BrokerRegistrationState (KIP-1131)."""


def controller_metrics(report: ControllerReport) -> list[Metric]:
    """All metrics of an active controller."""
    brokers = report.state.registrations.brokers.values()
    fenced = sum(b.is_fenced for b in brokers)
    stopping = sum(b.is_in_controlled_shutdown and not b.is_fenced for b in brokers)
    # A broker that is its own controller has no registration, but is active.
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
    metrics += _broker_metrics(report)
    return metrics


def _broker_metrics(report: ControllerReport) -> list[Metric]:
    """Kafka's TimedOutBrokerHeartbeatCount is omitted: it counts heartbeats that wait too long in a queue, which this controller
    lacks."""
    states = {b.broker_id: _state_of(b) for b in report.state.registrations.brokers.values()}
    # A broker that is its own controller has no registration.
    states = states or dict.fromkeys(report.silence_ms, ACTIVE)
    name = "kafka_controller_kafkacontroller"
    state = GaugeMetricFamily(
        f"{name}_brokerregistrationstate",
        "State of a registered broker: 10 fenced, 20 in controlled shutdown, 30 active (KIP-1131)",
        labels=["broker"],
    )
    silence = GaugeMetricFamily(
        f"{name}_timesincelastheartbeatreceivedms",
        "Time since a broker's last heartbeat, in ms, at most broker.session.timeout.ms",
        labels=["broker"],
    )
    for broker_id, value in sorted(states.items()):
        state.add_metric([str(broker_id)], value)
        silence.add_metric([str(broker_id)], report.silence_ms[broker_id])
    text = "Brokers that were fenced because they sent no heartbeat for broker.session.timeout.ms"
    return [state, silence, CounterMetricFamily("ottla_controller_expired_sessions", text, value=report.expired_sessions)]


def _state_of(broker: BrokerRegistration) -> int:
    if broker.is_fenced:
        return FENCED
    return CONTROLLED_SHUTDOWN if broker.is_in_controlled_shutdown else ACTIVE
