"""All metrics, under the names that dashboards for Kafka use.

Most names are those that the JMX exporter gives to Kafka's MBeans by Strimzi's rules. ``kafka_consumergroup_*`` and
``kafka_topic_*`` are the names of kafka_exporter. Kafka has no metrics that correspond to ``ottla_*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.fetch_sessions import FetchSessions
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.limits.memory_budgets import RequestBudget, ResponseBudget
from ottla.broker.loop.counters import DURATION_BOUNDS_S, Counters, Recent
from ottla.broker.loop.env import Clock
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.stepping import Stepping
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.strays import Strays
from ottla.broker.metrics.connection_metrics import connection_metrics
from ottla.broker.metrics.controller_metrics import controller_metrics
from ottla.broker.metrics.controller_report import ControllerReport
from ottla.broker.metrics.replica_metrics import replica_metrics
from ottla.broker.network.listener import Connections
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.partitions import Partitions
from ottla.coordinator.transaction.states import PREPARED
from ottla.operations.audit import TornTransaction
from ottla.protocol.messages import APIS
from ottla.protocol.transaction_states import TxnState
from ottla.storage.log_dir import LogDirectory

QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)
Labels = dict[str, str]
Sample = tuple[Labels, float]


class Ports(Protocol):
    """The parts of the broker that are measured."""

    authorizer: RequestAuthorizer
    live_config: LiveConfig
    clock: Clock
    partitions: Partitions
    cluster: ClusterCommands
    groups: Groups
    transactions: Transactions
    connections: Connections
    fetch_sessions: FetchSessions
    inflating: InflatingMemory
    stepping: Stepping
    counters: Counters
    lifecycle: Lifecycle
    directory: LogDirectory
    disk: DiskHealth
    strays: Strays
    quotas: ClientQuotaEnforcement
    torn: list[TornTransaction]
    """The transactions that lost records or markers in the last crash."""
    startup_ms: float

    @property
    def is_sound(self) -> bool: ...


def collect(ports: Ports) -> list[Metric]:
    """All metrics with their current values."""
    return [
        *replica_metrics(ports),
        *_controller(ports),
        *_transactions(ports),
        *_requests(ports),
        *_logs(ports),
        *_groups(ports),
        *connection_metrics(ports),
        *_own(ports),
        *_budgets(ports),
        *_quotas(ports),
        *_authorizer(ports),
    ]


def _family(kind: type[GaugeMetricFamily | CounterMetricFamily], name: str, text: str, samples: Iterable[Sample] | float) -> Metric:
    labelled_samples = [({}, samples)] if isinstance(samples, int | float) else list(samples)
    family = kind(name, text, labels=list(labelled_samples[0][0]) if labelled_samples else [])
    for labels, value in labelled_samples:
        family.add_metric(list(labels.values()), value)
    return family


def _gauge(name: str, text: str, samples: Iterable[Sample] | float) -> Metric:
    return _family(GaugeMetricFamily, name, text, samples)


def _counter(name: str, text: str, samples: Iterable[Sample] | float) -> Metric:
    return _family(CounterMetricFamily, name, text, samples)


def _quantiles(name: str, text: str, counted: str, recent: Recent) -> Iterator[Metric]:
    yield _gauge(name, text, [({"quantile": str(q)}, recent.quantile(q)) for q in QUANTILES])
    yield _counter(f"{name}_count", counted, recent.count)


def _controller(ports: Ports) -> Iterator[Metric]:
    levels = [({"featurename": feature}, level) for feature, level in sorted(ports.cluster.state.features.items())]
    yield _gauge("kafka_server_metadataloader_finalizedlevel", "Finalized level of a feature", levels)
    state = ports.cluster.state
    if state.is_alone:
        log = ports.cluster.metadata_log
        damaged = sum(p.log.is_offline for p in ports.partitions)
        report = ControllerReport(
            state=state,
            end_offset=log.end_offset,
            high_watermark=log.high_watermark,
            damaged_partitions=damaged,
            silence_ms={state.node_id: 0},
        )
        yield from controller_metrics(report)
    else:
        # The controller is another process, which serves all metrics of a controller but this gauge.
        yield _gauge("kafka_controller_kafkacontroller_activecontrollercount", "1 on the active controller, else 0", 0)


def _transactions(ports: Ports) -> Iterator[Metric]:
    counters = ports.counters
    manager = "kafka_server_addpartitionstotxnmanager"
    yield from _quantiles(
        f"{manager}_verificationtimems",
        "Time to add or verify a partition, in ms",
        "Partitions that were added or verified",
        counters.verification_ms,
    )
    yield _counter(
        f"{manager}_verificationfailurerate_count",
        "Partitions that could not be added or verified",
        counters.verification_failures,
    )
    channel = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
    yield _gauge(f"{channel}_unknowndestinationqueuesize", "Transaction markers that wait for a partition to have a leader", 0)
    yield _gauge(
        f"{channel}_logappendretryqueuesize",
        "Completed transactions whose last record waits to be appended to the coordinator's log",
        ports.transactions.delayed,
    )
    yield _gauge("ottla_recovery_torn_transactions", "Transactions that lost records or markers in the last crash", len(ports.torn))
    load = ports.transactions.load_ms
    coordinator = "kafka_server_transaction_coordinator_metrics_partition_load_time"
    yield _gauge(f"{coordinator}_max", "Maximum time to load a partition of __transaction_state, in ms", max(load, default=0.0))
    yield _gauge(
        f"{coordinator}_avg", "Mean time to load a partition of __transaction_state, in ms", sum(load) / len(load) if load else 0.0
    )


def _requests(ports: Ports) -> Iterator[Metric]:
    asked = [({"request": APIS[k].name, "version": str(v)}, float(n)) for (k, v), n in sorted(ports.counters.requests.items())]
    yield _counter("kafka_network_requestmetrics_requests", "Requests by API and version", asked)


def _logs(ports: Ports) -> Iterator[Metric]:
    named = [({"topic": p.log.topic, "partition": str(p.log.partition)}, p) for p in ports.partitions if p.log.segments]

    def each(name: str, text: str, value: Iterable[float]) -> Metric:
        return _gauge(name, text, [(labels, v) for (labels, _), v in zip(named, value, strict=True)])

    logs = [p.log for _, p in named]
    lag = (log.high_watermark - log.last_stable_offset for log in logs)
    yield each(
        "kafka_cluster_partition_laststableoffsetlag",
        "Offsets from the last stable offset to the high watermark, on each replica",
        lag,
    )
    yield each("kafka_log_log_size", "Size of a partition's segments, in bytes", (log.size_bytes for log in logs))
    yield each("kafka_topic_partition_current_offset", "Log end offset", (log.log_end_offset for log in logs))
    yield each("kafka_topic_partition_oldest_offset", "Log start offset", (log.log_start_offset for log in logs))
    yield each("ottla_partition_lso", "Last stable offset", (log.last_stable_offset for log in logs))
    counts = [({"topic": t.name}, float(t.partition_count)) for t in ports.cluster.state.topics.values()]
    yield _gauge("kafka_topic_partitions", "Partitions of a topic", counts)
    topics: dict[str, list[int]] = {}
    for partition in ports.partitions:
        sums = topics.setdefault(partition.log.topic, [0, 0])
        sums[0] += partition.bytes_in
        sums[1] += partition.messages_in
    metrics = "kafka_server_brokertopicmetrics"
    yield _counter(
        f"{metrics}_bytesin", "Bytes received from producers", [({"topic": t}, float(s[0])) for t, s in sorted(topics.items())]
    )
    yield _counter(
        f"{metrics}_messagesin", "Records received from producers", [({"topic": t}, float(s[1])) for t, s in sorted(topics.items())]
    )


def _groups(ports: Ports) -> Iterator[Metric]:
    current: list[Sample] = []
    lag: list[Sample] = []
    lag_committed: list[Sample] = []
    for shard in ports.groups.shards():
        for group_id in shard.offsets.groups:
            for (topic, index), committed in shard.offsets.of_group(group_id).items():
                labels = {"consumergroup": group_id, "topic": topic, "partition": str(index)}
                current.append((labels, committed.offset))
                partition = ports.partitions.find(topic, index)
                if partition is not None:
                    lag.append((labels, max(0, partition.log.high_watermark - committed.offset)))
                    lag_committed.append((labels, max(0, partition.log.last_stable_offset - committed.offset)))
    yield _gauge("kafka_consumergroup_current_offset", "Committed offset", current)
    yield _gauge(
        "kafka_consumergroup_lag",
        "Offsets from the committed offset to the high watermark, including markers and aborted records; in a cluster only of"
        " partitions with a replica on the group's coordinator",
        lag,
    )
    text = (
        "Offsets from the committed offset to the last stable offset, which read_committed consumers can read now; in a cluster"
        " only of partitions with a replica on the group's coordinator"
    )
    yield _gauge("kafka_consumergroup_lag_read_committed", text, lag_committed)


def _own(ports: Ports) -> Iterator[Metric]:
    counters = ports.counters
    outcomes = [({"outcome": o}, float(counters.transactions[o])) for o in ("commit", "abort", "timeout", "fenced")]
    yield _counter("ottla_txn", "Completed transactions", outcomes)
    states = [m.state for shard in ports.transactions.shards() for m in shard.unfinished()]
    yield _gauge("ottla_txn_open", "Open transactions", states.count(TxnState.ONGOING))
    yield _gauge("ottla_txn_markers_pending", "Decided transactions with pending markers", sum(s in PREPARED for s in states))
    buckets, total = [], 0
    for bound, count in zip([*map(str, DURATION_BOUNDS_S), "+Inf"], counters.durations, strict=True):
        total += count
        buckets.append((bound, float(total)))
    text = "Time from a transaction's first partition to its completion, in s"
    yield HistogramMetricFamily("ottla_txn_duration_seconds", text, buckets=buckets, sum_value=counters.durations_sum_s)
    yield _counter(
        "ottla_inflated_bytes",
        "Decompressed bytes of produced batches that were too large to be decompressed at once",
        counters.inflated_bytes,
    )
    yield _gauge("ottla_inflating_memory_bytes", "Memory in use for decompressing batches, in bytes", ports.inflating.used_bytes)
    yield _gauge(
        "ottla_inflating_memory_limit_bytes", "Maximum memory for decompressing batches, in bytes", ports.inflating.limit_bytes
    )
    directory = {"logdirectory": ports.directory.absolute_path}
    manager = "kafka_log_logmanager"
    yield _gauge(f"{manager}_offlinelogdirectorycount", "Log directories that have failed", float(ports.disk.has_failed))
    text = "1 for a log directory that takes no writes, or one of whose partitions is offline"
    yield _gauge(f"{manager}_logdirectoryoffline", text, [(directory, float(not ports.is_sound))])
    strays = ports.strays.summary()
    yield _gauge("ottla_stray_directories", "Partition directories set aside as stray because no topic has their id", strays.count)
    yield _gauge("ottla_stray_directories_bytes", "Size of stray directories, in bytes", strays.size_bytes)
    yield _counter("ottla_disk_refused_writes", "Writes that failed because the disk was full or faulty", ports.disk.refused_writes)
    yield _gauge(
        "ottla_startup_seconds", "Time of the last start until the broker answered requests, in s", ports.startup_ms / 1000
    )
    yield _gauge(
        "ottla_unexpected_errors",
        "Unexpected errors: bugs of the broker, each logged with its trace",
        ports.lifecycle.unexpected_errors,
    )
    yield _gauge("ottla_open_files", "Open log files", ports.directory.fs.open_files)
    yield _gauge("ottla_open_files_limit", "Maximum number of open log files", ports.directory.fs.max_open_files)
    yield _gauge("ottla_connections_limit", "Maximum number of open connections", ports.connections.limit)


def _budgets(ports: Ports) -> Iterator[Metric]:
    requests, responses = ports.connections.request_budget, ports.connections.response_budget
    which: list[tuple[Labels, RequestBudget | ResponseBudget]] = [
        ({"queue": "requests"}, requests),
        ({"queue": "responses"}, responses),
    ]

    def each(name: str, text: str, value: Callable[[RequestBudget | ResponseBudget], float]) -> Metric:
        return _gauge(f"ottla_queued_{name}", text, [(labels, value(budget)) for labels, budget in which])

    yield each(
        "bytes", "Memory of unfinished requests and of responses that clients have not read, in bytes", lambda b: b.used_bytes
    )
    yield each("limit_bytes", "Limit of ottla_queued_bytes; negative without a limit", lambda b: b.limit_bytes)
    yield each("waiting_connections", "Connections that wait for memory", lambda b: b.waiting_count)
    yield each("closed_connections", "Connections closed to free memory for waiting connections", lambda b: b.closed_count)
    yield _gauge("kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions", len(ports.fetch_sessions))
    partitions = ports.fetch_sessions.partition_count
    yield _gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached", "Partitions in incremental fetch sessions", partitions
    )
    yield _gauge(
        "ottla_steps_work",
        "Long requests and tasks in progress that yield to other work; parked requests are not counted",
        len(ports.stepping),
    )
    yield _gauge(
        "ottla_steps_longest_seconds",
        "Longest time for which one step has blocked the event loop, in s",
        ports.stepping.longest_step_ms / 1000,
    )


def _quotas(ports: Ports) -> Iterable[Metric]:
    if not ports.quotas.entities:
        return ()
    # Imported here, because most brokers have no quotas.
    from ottla.broker.metrics.quota_metrics import quota_metrics

    return quota_metrics(ports.quotas.managers, ports.clock.steady_ms())


def _authorizer(ports: Ports) -> Iterator[Metric]:
    """Return the metrics that Kafka's StandardAuthorizer registers as an MBean of the type ``plugins`` (KIP-877)."""
    if not ports.authorizer.is_enabled:
        return
    labels = {"class": "StandardAuthorizer", "config": "authorizer.class.name", "role": "broker"}
    name = "kafka_server_plugins"
    yield _gauge(
        f"{name}_acls_total_count", "ACLs of the cluster, with an authorizer", [(labels, len(ports.cluster.state.acls.by_id))]
    )
    allowed, denied = ports.authorizer.rates_per_minute()
    for what, text, rate in (
        ("request", "Actions that the authorizer allowed or denied per minute", allowed + denied),
        ("allowed", "Actions that the authorizer allowed per minute", allowed),
        ("denied", "Actions that the authorizer denied per minute", denied),
    ):
        yield _gauge(f"{name}_authorization_{what}_rate_per_minute", text, [(labels, rate)])
