"""One broker: everything it owns, how it starts and how it stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog
from msgspec import to_builtins

from ottla.broker.cluster import Cluster
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.config.settings import POWER, BrokerConfig, Settings
from ottla.broker.counters import Counters
from ottla.broker.descriptors import share_out
from ottla.broker.disk_health import DiskHealth
from ottla.broker.durability import GroupCommit
from ottla.broker.env import Clock, Env, Listening, Randomness, Timers, why_not_bound
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.first_topics import create_first_topics
from ottla.broker.gate import Gate
from ottla.broker.groups import Groups
from ottla.broker.handlers import write_txn_markers
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.inflating import InflatingMemory
from ottla.broker.lifecycle import Lifecycle
from ottla.broker.live_config import LiveConfig
from ottla.broker.logs import LOG_LEVELS
from ottla.broker.markers import LocalTransport
from ottla.broker.network.addresses import Addresses
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import IDLE_TICK_MS, Connections, Endpoint
from ottla.broker.partitions import Partitions
from ottla.broker.producer_ids import ProducerIds, highest_known_id
from ottla.broker.recovery_audit import find_torn_transactions
from ottla.broker.share_groups import ShareGroupStates
from ottla.broker.share_partitions import SharePartitions
from ottla.broker.share_states import ShareStates
from ottla.broker.stepping import Stepping
from ottla.broker.takeovers import Takeovers
from ottla.broker.transactions import Transactions
from ottla.broker.verification import LocalVerification, Verification
from ottla.operations.audit import TornTransaction
from ottla.protocol.primitives import NO_UUID
from ottla.storage.checkpoints import topic_id_text
from ottla.storage.filesystem import Damaged
from ottla.storage.identity import NOT_OURS, DirectoryError, Identity, read_identity, write_identity
from ottla.storage.log_dir import LogDirectory

if TYPE_CHECKING:
    from prometheus_client.core import Metric

GROUP_TICK_MS = 50
DIRECTORY_CHECK_MS = 1_000
"""How often the broker looks whether the data directory is still where it was."""
DELETED_TOPICS_MS = 5_000
"""How often the offsets of deleted topics are looked for that could not be removed with their topic."""
UNWRITTEN_TOLD = 20
"""Files that a stop could not write, and that are logged one by one."""
TORN_TOLD = 100
"""Torn transactions that are logged one by one."""

log = structlog.get_logger("broker")


ServeMetrics = Callable[[str, int, "Callable[[], list[Metric]]"], Listening]
"""Serves at a host and a port what the callable collects. Raises OSError and ValueError for an address that cannot be had."""


class BrokerServer:
    """Owns all state; the event loop that runs it is the only one that touches it.

    ``serve_metrics`` is called where ``ottla.metrics.port`` is set; without it no metrics are served. ``first_topics`` are made
    before the broker listens.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        features: Mapping[str, int] | None = None,
        *,
        serve_metrics: ServeMetrics | None = None,
        first_topics: Sequence[FirstTopic] = (),
    ) -> None:
        self.env = env
        self.clock: Clock = env
        self.timers: Timers = env
        self.randomness: Randomness = env
        self.live_config = LiveConfig(config)
        self.lifecycle = Lifecycle()
        self._features = dict(features or {})
        self._first_topics = first_topics
        self.addresses = Addresses(env, self.settings)
        self._metrics: Listening | None = None
        self._metrics_server = serve_metrics
        # How the directory was left: none for a new one, clean or crash.
        self._last_stop = "none"
        self.counters = Counters()
        self.inflating = InflatingMemory(self.settings.ottla_inflating_memory_bytes)
        self.startup_ms = 0.0
        self.takeovers = Takeovers()
        # What the last crash has torn.
        self.torn: list[TornTransaction] = []
        self.cluster_id, self.directory_id = "", NO_UUID
        self.log_levels = LOG_LEVELS
        self.descriptors = share_out(env.open_file_limit(), self.settings.ottla_max_open_files)
        env.fs.max_open_files = self.descriptors.files
        self.stepping = Stepping(env, self._bug)
        self.connections = Connections(env, self.settings, self.descriptors.connections)
        self.response_budget = self.connections.response_budget
        self.live_config.on_change.append(self.connections.set_limits)
        self.directory = LogDirectory(env.fs, self.settings.log_dirs)
        self.disk = DiskHealth(env, self.settings.log_dirs)
        # Only where answers must wait for the disk.
        is_awaited = self.settings.ottla_durability == POWER
        self.gate = Gate(GroupCommit(env, self.stepping, self.disk_failed, self._sync_refused) if is_awaited else None)
        self.partitions = Partitions(env, self.directory, self.gate, self.disk)
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            self.settings.ottla_fetch_session_max_partitions,
            lambda: int.from_bytes(env.random_uuid()[:4], "big") & 0x7FFFFFFF,
        )

    @property
    def config(self) -> BrokerConfig:
        """The configuration in force."""
        return self.live_config.current

    @property
    def settings(self) -> Settings:
        return self.live_config.current.settings

    @property
    def unexpected_errors(self) -> int:
        return self.lifecycle.unexpected_errors

    # start

    async def start(self) -> None:
        """Load everything, then listen. Raises `DirectoryError`, `ConfigError` or OSError for what a person must mend."""
        self.directory.acquire()
        try:
            self._identify()
            for line in self.directory.unreadable:
                log.warning("checkpoint_unreadable", reason=line)
            started_ms = self.env.monotonic_ms()
            self._make_coordinators()
            self.cluster.load(self._features)
            self.groups.load()
            self.transactions.load()
            self.share_states.load()
            if self.cluster.has_lost_metadata or not self.directory.was_clean:
                # A power cut may take the end of the metadata log exactly between two batches, which nobody can see.
                self.cluster.skip_producer_ids(highest_known_id(self.directory.logs.values(), self.transactions.shards()))
            self._audit()
            self._resume()
            create_first_topics(self, self._first_topics)
            self.lifecycle.is_serving = True
        except BaseException:
            self.directory.abandon()
            raise
        try:
            await self.addresses.listen(lambda listener: Connection(self, listener))
            self._serve_metrics()
        except BaseException:
            self._end_work()
            if self._last_stop != "crash":
                # All is loaded: the next start need not take a port that was in use for a crash.
                self.directory.close()
            else:
                self.directory.abandon()
            raise
        self.startup_ms = self.env.monotonic_ms() - started_ms
        self._begin_housekeeping()
        for name in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
            if int(self.config.text(name) or 1) > 1:
                log.info("replication_factor_lowered", setting=name, given=self.config.text(name), used=1)
        log.info(
            "broker_started",
            bootstrap=self.bootstrap,
            data_dir=self.directory.path,
            last_stop=self._last_stop,
            load_ms=round(self.startup_ms),
            metrics=self.metrics_url,
        )

    def _make_coordinators(self) -> None:
        self.cluster = Cluster(
            env=self.env,
            stepping=self.stepping,
            config=self.live_config,
            directory=self.directory,
            disk=self.disk,
            gate=self.gate,
            partitions=self.partitions,
        )
        self.producer_ids = ProducerIds(self.cluster)
        self.groups = Groups(
            env=self.env,
            stepping=self.stepping,
            live_config=self.live_config,
            partitions=self.partitions,
            cluster_state=self.cluster.state,
        )
        self.transactions = Transactions(
            env=self.env,
            stepping=self.stepping,
            lifecycle=self.lifecycle,
            settings=self.settings,
            counters=self.counters,
            gate=self.gate,
            partitions=self.partitions,
            cluster_state=self.cluster.state,
            new_producer_id=self.producer_ids.new,
            transport=LocalTransport(
                stepping=self.stepping,
                lifecycle=self.lifecycle,
                write=lambda request: write_txn_markers.write_markers(self, request),
                failed=write_txn_markers.failed,
            ),
        )
        self.verification: Verification = LocalVerification(
            clock=self.env,
            config=self.live_config,
            counters=self.counters,
            transactions=self.transactions,
            cluster_state=self.cluster.state,
        )
        self.cluster.on_topic_changed.append(self.groups.topic_changed)
        self.cluster.on_topic_deleted += [self.groups.topic_deleted, self.transactions.topic_deleted]
        self.cluster.on_transaction_version.append(self.transactions.set_version)
        self.housekeeping = Housekeeping(
            env=self.env,
            stepping=self.stepping,
            lifecycle=self.lifecycle,
            config=self.live_config,
            directory=self.directory,
            partitions=self.partitions,
            disk=self.disk,
            gate=self.gate,
            disk_failed=self.disk_failed,
        )
        self.share_states = ShareStates(
            self.env, self.stepping, self.settings, self.partitions, self.cluster.state, self.housekeeping.delete_records
        )
        self.share_partitions = SharePartitions(
            self.env, self.stepping, self.live_config, self.partitions, self.cluster.state, self.share_states
        )
        self.share_groups = ShareGroupStates(
            self.groups, self.share_states, self.cluster, self.partitions, self.share_partitions.forget
        )
        self.cluster.on_topic_deleted += [self.share_states.topic_deleted, self.share_partitions.topic_deleted]
        self.cluster.on_features_changed.append(self.share_partitions.features_changed)
        self.connections.on_closed.append(self.share_partitions.disconnected)

    def _begin_housekeeping(self) -> None:
        repeat, groups, transactions = self.housekeeping.repeat, self.groups, self.transactions
        repeat("group_tick", lambda _: GROUP_TICK_MS, groups.tick)
        repeat(
            "transaction_time_outs",
            lambda s: s.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            transactions.abort_timed_out,
        )
        repeat(
            "transactional_id_expiry",
            lambda s: s.transaction_remove_expired_transaction_cleanup_interval_ms,
            transactions.expire_ids,
        )
        repeat("offset_expiry", lambda s: s.offsets_retention_check_interval_ms, groups.expire_offsets)
        repeat("deleted_topics", lambda _: DELETED_TOPICS_MS, groups.forget_topics)
        self.share_states.begin_housekeeping(repeat)
        self.share_partitions.begin_housekeeping(repeat)
        self.housekeeping.start()
        repeat("idle_connections", lambda _: IDLE_TICK_MS, self.connections.close_idle)
        repeat("directory", lambda _: DIRECTORY_CHECK_MS, self.check_directory)

    def _bug(self) -> None:
        """Called in an ``except`` block."""
        log.exception("work_failed")
        self.lifecycle.unexpected_errors += 1

    def _audit(self) -> None:
        read = self.cluster.take_read()
        if self.directory.was_clean and not self.cluster.has_lost:
            return
        forgotten_ms = self.env.now_ms() - self.settings.producer_id_expiration_ms
        self.torn = find_torn_transactions(self.partitions, self.cluster.metadata_log, read, forgotten_ms)
        for lost in self.torn[:TORN_TOLD]:
            log.warning("transaction_torn", **to_builtins(lost))
        if len(self.torn) > TORN_TOLD:
            log.warning("transactions_torn", count=len(self.torn), hint="ottla audit names all")

    def _resume(self) -> None:
        """Carry out what was decided before; with ``durability=power`` once the decisions are on disk."""
        if self.gate.on_written is not None:
            for partition in self.partitions:
                if partition.log.segments and partition.log.recovery_point < partition.log.log_end_offset:
                    self.gate.on_written(partition.log)
        self.transactions.resume()

    def _sync_refused(self, path: str, error: OSError) -> None:
        """A file or a directory could not be opened to be synced. Where it is damaged its partition goes offline, and no other."""
        for partition_log in self.directory.logs.values():
            if isinstance(error, Damaged) and (path == partition_log.directory or path.startswith(f"{partition_log.directory}/")):
                self.partitions.disk_refused(partition_log, error)
                return
        self.disk.refused(self.directory.path, error)

    @property
    def is_sound(self) -> bool:
        """Whether the log directory takes writes and none of its partitions is offline: what health and the metrics tell.

        Kafka takes the whole directory offline for one damaged log.
        """
        return self.disk.is_sound and not any(partition.log.is_offline for partition in self.partitions)

    def disk_failed(self, error: BaseException) -> None:
        """A sync has failed: nobody knows what the disk has, so nothing more is taken and no later success told (fsyncgate)."""
        self.disk.failed(error)
        self._refuse_writes()

    def check_directory(self) -> None:
        """Write nothing more once the lock file is gone: what is acknowledged would be lost, or overwrite another broker's."""
        if not self.disk.has_failed and not self.directory.is_ours():
            self.disk.lost(NOT_OURS)
            self._refuse_writes()

    def _refuse_writes(self) -> None:
        for partition_log in self.directory.logs.values():
            partition_log.is_failed = True

    def _identify(self) -> None:
        identity = read_identity(self.env.fs, self.directory.path)
        self._last_stop = "clean" if self.directory.was_clean else "crash"
        if identity is None:
            cluster_id, directory_id = (topic_id_text(self.env.random_uuid()) for _ in range(2))
            identity = Identity(cluster_id, self.settings.node_id, directory_id)
            self._last_stop = "none"
            write_identity(self.env.fs, self.directory.path, identity)
        elif identity.node_id != self.settings.node_id:
            raise DirectoryError(
                f"{self.directory.path} belongs to node {identity.node_id}, and node.id is {self.settings.node_id}"
            )
        self.cluster_id, self.directory_id = identity.cluster_id, identity.directory_uuid

    def _serve_metrics(self) -> None:
        settings = self.settings
        if settings.ottla_metrics_port is None or self._metrics_server is None:
            return
        where = Endpoint("metrics", settings.ottla_metrics_host, settings.ottla_metrics_port)
        try:
            self._metrics = self._metrics_server(where.host, where.port, self._collect)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot serve metrics on {where}: {why_not_bound(error)}") from error

    def _collect(self) -> list[Metric]:
        from ottla.broker.metrics.exposition import collect

        return collect(self)

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds the metrics, if they are served."""
        return None if self._metrics is None else f"http://{self.settings.ottla_metrics_host}:{self._metrics.port}/metrics"

    # addresses

    def advertised(self, listener: str) -> tuple[str, int]:
        """Host and port that clients of a listener are told."""
        return self.addresses.advertised(listener)

    @property
    def bootstrap(self) -> str:
        return self.addresses.bootstrap

    # end

    async def stop(self) -> None:
        """Take no more requests, write everything down, mark the directory clean."""
        if self.lifecycle.is_stopping:
            return
        self.housekeeping.stop()
        self._end_work()
        self.connections.close_all("the broker stops")
        self.disk.close()
        unwritten = self.directory.close()
        for line in unwritten[:UNWRITTEN_TOLD]:
            log.error("not_written", reason=line)
        if len(unwritten) > UNWRITTEN_TOLD:
            log.error("more_not_written", count=len(unwritten))
        log.info("broker_stopped", unexpected_errors=self.unexpected_errors)

    def _end_work(self) -> None:
        """Take nothing new, and let nothing go on by itself: the directory is about to be closed."""
        self.lifecycle.is_stopping = True
        self.stepping.stop()
        self.gate.stop()
        self._close_listeners()

    def _close_listeners(self) -> None:
        self.addresses.close()
        if self._metrics is not None:
            self._metrics.close()
