"""One broker: builds all parts, starts them and stops them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from ottla.broker.apis.authorizer_port import ALLOW_ALL, RequestAuthorizer
from ottla.broker.apis.services import Services
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import POWER, BrokerConfig, Settings
from ottla.broker.coordinators.dead_letters import DeadLetterTopics
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.id_owners import Takeovers
from ottla.broker.coordinators.share_groups import ShareGroupStates
from ottla.broker.coordinators.share_partitions import SharePartitions
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.coordinators.sweeps import begin_sweeps
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.coordinators.verification import Verification
from ottla.broker.handlers.registry import BROKER_APIS
from ottla.broker.handlers.support.first_topics import create_first_topics
from ottla.broker.hooks.interception import Interception
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.limits.fetch_sessions import FetchSessions
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.counters import Counters
from ottla.broker.loop.descriptors import share_out
from ottla.broker.loop.env import Clock, Env, Randomness, Timers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.logs import LOG_LEVELS
from ottla.broker.loop.stepping import Stepping
from ottla.broker.metadata.local_partitions import MetadataParts
from ottla.broker.metadata.metadata_source import MetadataSource
from ottla.broker.metadata.own_metadata import OwnMetadata
from ottla.broker.metadata.placement import SolePlacement
from ottla.broker.metadata.producer_ids import highest_known_id
from ottla.broker.metadata.request_topics import KnownTopics
from ottla.broker.metadata.strays import Strays
from ottla.broker.metrics.metrics_endpoint import MetricsEndpoint
from ottla.broker.metrics.socket_handover import Inherited, ServeMetrics
from ottla.broker.network.addresses import Addresses
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import IDLE_TICK_MS, Connections
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_errors import problems_of
from ottla.broker.partitions.disk_health import DiskHealth, log_unwritten
from ottla.broker.partitions.disk_stop import DiskStop
from ottla.broker.partitions.durability import GroupCommit
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.recovery_audit import find_torn_transactions, log_torn_transactions
from ottla.broker.transports.local_coordinators import LocalCoordinators
from ottla.operations.audit import TornTransaction
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.primitives import NO_UUID
from ottla.storage.identity import DirectoryError, check_formatted, identify
from ottla.storage.log_dir import LogDirectory

if TYPE_CHECKING:
    from ottla.broker.transports.coordinators import OtherCoordinators

DIRECTORY_CHECK_MS = 1_000
"""How often the broker checks that the data directory was not moved or removed, in ms."""

log = structlog.get_logger("broker")


class BrokerServer:
    """Owns all state of a broker. Only the event loop that runs the broker reads and changes the state.

    ``serve_metrics`` is called if ``ottla.metrics.port`` is set; without it no metrics are served. ``first_topics`` are created
    before the broker listens. ``interception`` may change the handling of requests; ``transaction_listener`` is notified of
    transactions.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        features: Mapping[str, int] | None = None,
        *,
        serve_metrics: ServeMetrics | None = None,
        inherited: Inherited | None = None,
        interception: Interception | None = None,
        transaction_listener: TransactionListener | None = None,
        first_topics: Sequence[FirstTopic] = (),
    ) -> None:
        self.env = env
        self.clock: Clock = env
        self.timers: Timers = env
        self.randomness: Randomness = env
        self.apis, self.placement = BROKER_APIS, SolePlacement(config.settings.node_id)
        self.services: Services = self
        self.authorizer: RequestAuthorizer = ALLOW_ALL
        self.live_config = LiveConfig(config)
        self.lifecycle = Lifecycle(env)
        self.interception, self.transaction_listener = interception, transaction_listener
        self._features, self._first_topics, self._inherited = dict(features or {}), first_topics, inherited
        self.addresses = Addresses(env, self.settings) if inherited is None else inherited.addresses
        self._metrics = MetricsEndpoint(self.settings, serve_metrics, None if inherited is None else inherited.metrics)
        # How the last run ended, according to the directory: "clean", "crash", or "none" for a new directory.
        self._last_stop = "none"
        self.counters = Counters()
        self.inflating = InflatingMemory(self.settings.ottla_inflating_memory_bytes)
        self.startup_ms = 0.0
        self.takeovers = Takeovers(env, transaction_listener)
        # The transactions that lost a part in the last crash.
        self.torn: list[TornTransaction] = []
        self.on_given_up: Callable[[DirectoryError], None] = lambda error: None
        """Called if this broker cannot continue and must be stopped and started again."""
        self.cluster_id, self.directory_id = "", NO_UUID
        self._coordinators: LocalCoordinators | OtherCoordinators = LocalCoordinators()
        self.log_levels = LOG_LEVELS
        self.descriptors = share_out(env.open_file_limit(), self.settings.ottla_max_open_files)
        env.fs.max_open_files = self.descriptors.files
        self.stepping = Stepping(env, self._bug)
        self.connections = Connections(env, self.settings, self.descriptors.connections)
        self.response_budget = self.connections.response_budget
        self.live_config.on_change.append(self.connections.set_limits)
        self.directory = LogDirectory(env.fs, self.settings.log_dirs, None if inherited is None else inherited.lock)
        self.disk = DiskHealth(env, self.settings.log_dirs)
        self.disk_stop = DiskStop(self.directory, self.disk)
        self.barrier = Barrier(None)
        if self.settings.ottla_durability == POWER:
            self.barrier = Barrier(GroupCommit(env, self.stepping, self.disk_stop.sync_failed, self._sync_refused))
        self.partitions = Partitions(env, self.directory, self.barrier, self.disk, self.settings.node_id)
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            self.settings.ottla_fetch_session_max_partitions,
            lambda: int.from_bytes(env.random_uuid()[:4], "big") & 0x7FFFFFFF,
        )

    @property
    def config(self) -> BrokerConfig:
        """The current configuration."""
        return self.live_config.current

    @property
    def settings(self) -> Settings:
        return self.live_config.current.settings

    @property
    def unexpected_errors(self) -> int:
        return self.lifecycle.unexpected_errors

    # start

    async def start(self) -> None:
        """Load all state, then listen. Raises `DirectoryError`, `ConfigError` or OSError for an error that a person must fix."""
        self.directory.acquire()
        try:
            self._identify()
            for line in self.directory.unreadable:
                log.warning("checkpoint_ignored", reason=line)
            started_ms = self.env.monotonic_ms()
            if self.settings.is_member:
                await self.addresses.bind()
            self._make_coordinators()
            await self.metadata.load(self._features)
            self.metadata.skip_known_ids(
                0 if self._inherited is None else self._inherited.first_producer_id,
                lambda: highest_known_id(self.directory.logs.values(), self.transactions.shards()),
            )
            self._audit()
            self._resume()
            create_first_topics(self, self._first_topics)
            self.lifecycle.is_serving = True
        except BaseException:
            self._end_steps()
            self.directory.abandon()
            if self._inherited is None:
                self.addresses.close()
            raise
        try:
            await self.addresses.listen(lambda listener: Connection(self, listener))
            self._metrics.open(self)
        except BaseException:
            self._end_work()
            self._close_listeners()
            # All state is loaded. A port that is in use must not make the next start recover as after a crash.
            self.directory.abandon() if self._last_stop == "crash" else self.directory.close(self.metadata.broker_epoch)
            raise
        self._begin_housekeeping()
        await self.metadata.serve()
        self.directory.keeps_lock = False
        self.startup_ms = self.env.monotonic_ms() - started_ms
        if not self.settings.is_member:
            self.live_config.log_lowered_factors()
        log.info(
            "broker_started",
            bootstrap=self.bootstrap,
            data_dir=self.directory.path,
            last_stop=self._last_stop,
            load_ms=round(self.startup_ms),
            metrics=self.metrics_url,
        )

    def _make_coordinators(self) -> None:
        """Make the coordinators and their parts. Each gets the parts made before it, so the order matters."""
        self._make_metadata()
        self._make_transactions()
        self.housekeeping = Housekeeping(
            env=self.env,
            stepping=self.stepping,
            lifecycle=self.lifecycle,
            config=self.live_config,
            directory=self.directory,
            partitions=self.partitions,
            disk=self.disk,
            barrier=self.barrier,
            disk_failed=self.disk_stop.sync_failed,
        )
        self._make_share_groups()

    def _make_metadata(self) -> None:
        """Make the cluster's metadata, and the groups, which are notified of topic changes."""
        parts = MetadataParts(
            env=self.env,
            stepping=self.stepping,
            config=self.live_config,
            directory=self.directory,
            disk=self.disk,
            barrier=self.barrier,
            partitions=self.partitions,
        )
        metadata = self.metadata = self._join(parts) if self.settings.is_member else OwnMetadata(parts)
        self.cluster, self.cluster_state = metadata.cluster, metadata.state
        self.producer_ids, self.publisher = metadata.producer_ids, metadata.publisher
        self.strays = Strays(self.stepping, self.directory, self.cluster_state)
        self.request_topics = KnownTopics(self.cluster_state, self.fetch_sessions)
        self.groups = Groups(
            env=self.env,
            lifecycle=self.lifecycle,
            stepping=self.stepping,
            live_config=self.live_config,
            partitions=self.partitions,
            cluster_state=self.cluster_state,
        )
        self._make_authorizer()
        self.publisher.on_topic_changed.append(self.groups.topic_changed)
        self.publisher.on_topic_deleted.append(self.groups.topic_deleted)

    def _join(self, parts: MetadataParts) -> MetadataSource:
        # Imported here, because a broker that is its own controller does not need these modules.
        from ottla.broker.membership.joined_metadata import JoinedMetadata
        from ottla.broker.transports.coordinators import OtherCoordinators

        buffers = self.connections.buffers
        joined = JoinedMetadata(
            parts,
            identity=self.identity,
            addresses=self.addresses,
            buffers=buffers,
            bug=self._bug,
            give_up=self._give_up,
        )
        self.apis = BROKER_APIS.changed_by(joined.forwarding.through)
        self._coordinators = OtherCoordinators(joined.state, joined.peers)
        return joined

    def _make_authorizer(self) -> None:
        if self.settings.authorizer_class_name:
            # Imported here, because most brokers need no authorizer.
            from ottla.broker.apis.request_authorizer import acl_authorizer, enforcing

            self.authorizer = acl_authorizer(self.settings, self.cluster_state.acls.index, self.env)
            self.apis = self.apis.changed_by(enforcing(self.authorizer))

    def _give_up(self, error: DirectoryError) -> None:
        self.on_given_up(error)

    def _make_transactions(self) -> None:
        self.transactions = Transactions(
            env=self.env,
            stepping=self.stepping,
            lifecycle=self.lifecycle,
            settings=self.settings,
            counters=self.counters,
            barrier=self.barrier,
            partitions=self.partitions,
            cluster_state=self.cluster_state,
            new_producer_id=self.producer_ids.new,
            transport=self._coordinators.transport(self),
            interception=self.interception,
            listener=self.transaction_listener,
        )
        self.verification: Verification = self._coordinators.verification(self)
        self.publisher.on_topic_deleted.append(self.transactions.topic_deleted)
        self.publisher.on_transaction_version.append(self.transactions.set_version)

    def _make_share_groups(self) -> None:
        """Make the states of share partitions, the share partitions themselves, and `ShareGroupStates`, which uses both."""
        env, stepping, partitions, state = self.env, self.stepping, self.partitions, self.cluster_state
        delete_records = self.housekeeping.delete_records
        self.share_states = ShareStates(env, self.lifecycle, stepping, self.settings, partitions, state, delete_records)
        dead_letters = DeadLetterTopics(env, self.live_config, self.cluster, partitions, self.barrier, self.inflating)
        self.share_partitions = SharePartitions(env, stepping, self.live_config, partitions, state, self.share_states, dead_letters)
        self.share_groups = ShareGroupStates(
            env, self.groups, self.share_states, self.cluster, self.partitions, self.share_partitions.fence
        )
        self.share_partitions.on_state_lost = self.share_groups.state_lost
        self.publisher.on_topic_deleted += [self.share_states.topic_deleted, self.share_partitions.topic_deleted]
        self.publisher.on_features_changed.append(self.share_partitions.features_changed)
        self.metadata.local_partitions.coordinators = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTION_TOPIC: self.transactions,
            SHARE_STATE_TOPIC: self.share_states,
        }
        self.connections.on_closed.append(self.share_partitions.disconnected)

    def _begin_housekeeping(self) -> None:
        repeat = self.housekeeping.repeat
        begin_sweeps(self.housekeeping, self.groups, self.transactions)
        self.strays.begin()
        self.metadata.begin_housekeeping(repeat)
        self.share_states.begin_housekeeping(repeat)
        self.share_partitions.begin_housekeeping(repeat)
        self.housekeeping.start()
        repeat("idle_connections", lambda _: IDLE_TICK_MS, self.connections.close_idle, is_by_clock=False)
        repeat("directory", lambda _: DIRECTORY_CHECK_MS, self.disk_stop.check_directory, is_by_clock=False)

    def _bug(self) -> None:
        """Log and count an unexpected exception. Called in an ``except`` block."""
        self.lifecycle.bug("work_failed")

    def _audit(self) -> None:
        read = self.metadata.take_read()
        if self.settings.is_member or (self.directory.was_clean and not self.metadata.has_lost):
            # A replica may lag behind the coordinator's decisions, and its leader has the missing records.
            return
        forgotten_ms = self.env.now_ms() - self.settings.producer_id_expiration_ms
        self.torn = find_torn_transactions(self.partitions, self.metadata.topics_born(), read, forgotten_ms)
        log_torn_transactions(self.torn)

    def _resume(self) -> None:
        """Complete the transactions that were decided before the last stop; with ``power`` after the decisions are synced."""
        for partition in self.partitions:
            self.barrier.recovered(partition.log)
        self.transactions.resume()

    @property
    def is_sound(self) -> bool:
        """Whether the log directory accepts writes and no partition is offline. Kafka takes the whole directory offline for one."""
        return self.disk.is_sound and not any(partition.log.is_offline for partition in self.partitions)

    @property
    def problems(self) -> list[str]:
        """A line for each log that is offline or damaged."""
        return problems_of(partition.log for partition in self.partitions)

    def _sync_refused(self, path: str, error: OSError) -> None:
        self.partitions.sync_refused(path, error)

    def _identify(self) -> None:
        if self.settings.is_member:
            check_formatted(self.env.fs, self.directory.path)
        fs, path, is_synced = self.env.fs, self.directory.path, self.settings.ottla_durability == POWER
        self.identity, _ = identify(fs, path, self.settings.node_id, self.env.random_uuid, is_synced=is_synced)
        self._last_stop = "none" if not self.directory.was_used else "clean" if self.directory.was_clean else "crash"
        self.cluster_id, self.directory_id = self.identity.cluster_id, self.identity.directory_uuid

    @property
    def metrics_url(self) -> str | None:
        """The URL of the metrics for Prometheus; None if no metrics are served."""
        return self._metrics.url

    # addresses

    def advertised(self, listener: str) -> tuple[str, int]:
        """The host and port that the broker advertises to clients of a listener."""
        return self.addresses.advertised(listener)

    @property
    def bootstrap(self) -> str:
        return self.addresses.bootstrap

    # end

    async def stop(self) -> None:
        """Accept no further requests, write all state to disk, and mark the directory clean. A second call does nothing."""
        if self.lifecycle.is_leaving or self.lifecycle.is_stopping:
            return
        self.lifecycle.is_leaving = True
        await self.metadata.leave()
        self._end_work()
        self._close_listeners()
        log_unwritten(self.directory.close(self.metadata.broker_epoch))
        log.info("broker_stopped", unexpected_errors=self.unexpected_errors)

    def hand_over(self, *, is_written: bool) -> Inherited:
        """Stop, but keep the listeners open for the next broker of this process.

        Unless ``is_written`` no state is written, and the next broker recovers the data as after a crash.
        """
        assert not self.lifecycle.is_stopping, "a broker that stops has nothing to hand over"
        self._end_work()
        self.directory.keeps_lock = True
        if is_written:
            log_unwritten(self.directory.close(self.metadata.broker_epoch))
        else:
            self.directory.abandon()
        return Inherited(
            lock=self.directory.lock,
            first_producer_id=self.cluster.next_producer_id,
            addresses=self.addresses,
            metrics=self._metrics.served,
        )

    def _end_work(self) -> None:
        """Begin no new work and stop all background work, because the directory is about to be closed."""
        self.metadata.close()
        self.housekeeping.stop()
        self._end_steps()

    def _end_steps(self) -> None:
        self.lifecycle.is_stopping = True
        self.stepping.stop()
        self.barrier.stop()
        # Work in another thread may be writing a checkpoint.
        self.env.finish_aside()
        self.connections.close_all("the broker is stopping")
        self.disk.close()

    def _close_listeners(self) -> None:
        self.addresses.close()
        self._metrics.close()
