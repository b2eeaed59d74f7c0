"""One broker: builds, starts and stops all its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from ottla.broker.apis.authorizer_port import ALLOW_ALL, RequestAuthorizer
from ottla.broker.apis.services import Services
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.broker.coordinators.coordinators import LocalTransport, make_coordinators
from ottla.broker.coordinators.fencing_log import FencingLog
from ottla.broker.coordinators.markers import MarkerTransport
from ottla.broker.coordinators.verification import LocalVerification, Verification
from ottla.broker.handlers import write_txn_markers
from ottla.broker.handlers.registry import BROKER_APIS
from ottla.broker.handlers.support.first_topics import create_first_topics
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.fetch_sessions import FetchSessions
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.env import Clock, Env, Randomness, Timers
from ottla.broker.loop.logs import LOG_LEVELS
from ottla.broker.metadata.metadata_source import MetadataSource
from ottla.broker.metadata.own_metadata import OwnMetadata
from ottla.broker.metadata.placement import SolePlacement
from ottla.broker.metadata.producer_ids import highest_known_id
from ottla.broker.metadata.request_topics import KnownTopics
from ottla.broker.metadata.strays import Strays
from ottla.broker.network.listener import IDLE_TICK_MS, client_endpoints
from ottla.broker.network.listener_security import ListenerSecurity
from ottla.broker.partitions.disk_errors import problems_of
from ottla.broker.partitions.disk_health import log_unwritten
from ottla.broker.partitions.housekeeping import Housekeeping
from ottla.broker.partitions.recovery_audit import find_torn_transactions, log_torn_transactions
from ottla.broker.shared.shared_server import NO_HOST, Host, Inherited, SharedServer
from ottla.operations.audit import TornTransaction
from ottla.protocol.primitives import NO_UUID
from ottla.storage.identity import check_formatted

if TYPE_CHECKING:
    from ottla.broker.peers.other_coordinators import OtherCoordinators

DIRECTORY_CHECK_MS = 1_000
"""Interval in ms at which the broker checks that the data directory was not moved or removed."""

log = structlog.get_logger("broker")


class BrokerServer:
    """Owns all state of a broker. Only the event loop that runs the broker reads and changes the state.

    ``first_topics`` and ``first_users`` are created before the broker listens.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        features: Mapping[str, int] | None = None,
        *,
        host: Host = NO_HOST,
        first_topics: Sequence[FirstTopic] = (),
        first_users: Sequence[FirstUser] = (),
    ) -> None:
        self._features, self._host = dict(features or {}), host
        self._first_topics, self._first_users = first_topics, first_users
        shared = self.shared = SharedServer(env, config, host, sync_refused=self._sync_refused, on_closed=self._connection_closed)
        kernel = self.kernel = shared.kernel
        self.env = env
        self.clock: Clock = env
        self.timers: Timers = env
        self.randomness: Randomness = env
        self.services: Services = self
        self.authorizer: RequestAuthorizer = ALLOW_ALL
        self.live_config, self.lifecycle, self.stepping = kernel.config, kernel.lifecycle, kernel.stepping
        self.directory, self.disk, self.barrier, self.counters = kernel.directory, kernel.disk, kernel.barrier, kernel.counters
        self.interception, self.transaction_listener = host.interception, host.transaction_listener
        self.addresses, self.connections, self.descriptors = shared.addresses, shared.connections, shared.descriptors
        self.security = ListenerSecurity(self, config, client_endpoints(config.settings))
        self.response_budget = self.connections.response_budget
        self.log_levels, self.apis, self.placement = LOG_LEVELS, BROKER_APIS, SolePlacement(self.settings.node_id)
        self.fencing_log = FencingLog(env, host.transaction_listener)
        self.inflating = InflatingMemory(self.settings.ottla_inflating_memory_bytes)
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            self.settings.ottla_fetch_session_max_partitions,
            lambda: int.from_bytes(env.random_uuid()[:4], "big") & 0x7FFFFFFF,
        )
        # How the last run ended, according to the directory: "clean", "crash", or "none" for a new directory.
        self._last_stop = "none"
        self.cluster_id, self.directory_id = "", NO_UUID
        self.startup_ms = 0.0
        # The transactions that lost records or markers in the last crash.
        self.torn: list[TornTransaction] = []

    @property
    def config(self) -> BrokerConfig:
        return self.live_config.current

    @property
    def settings(self) -> Settings:
        return self.live_config.current.settings

    @property
    def unexpected_errors(self) -> int:
        return self.lifecycle.unexpected_errors

    async def start(self) -> None:
        """Load all state, then listen. Raises `DirectoryError`, `ConfigError` or OSError for an error that a person must fix."""
        inherited = self._host.inherited
        self.directory.acquire()
        try:
            self._identify()
            for line in self.directory.unreadable:
                log.warning("checkpoint_ignored", reason=line)
            started_ms = self.env.monotonic_ms()
            if self.settings.is_member:
                await self.addresses.bind()
            self._build()
            await self.metadata.load(self._features, self.coordinators)
            self.metadata.skip_known_ids(
                0 if inherited is None else inherited.first_producer_id,
                lambda: highest_known_id(self.directory.logs.values(), self.transactions.shards()),
            )
            self._audit()
            self._resume()
            create_first_topics(self, self._first_topics)
            self._create_first_users()
            self.lifecycle.is_serving = True
        except BaseException:
            self.shared.end_work("the broker")
            self.directory.abandon()
            if inherited is None:
                self.addresses.close()
            raise
        try:
            await self.addresses.listen(self.security.connection)
            self.shared.metrics.open(self)
        except BaseException:
            self._end_work()
            self.shared.close_listeners()
            # All state is loaded, so close the directory as clean. After a crash leave it unclean, so that the next start recovers
            # it again.
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

    def _identify(self) -> None:
        if self.settings.is_member:
            check_formatted(self.env.fs, self.directory.path)
        self.identity = self.shared.identify()
        self._last_stop = "none" if not self.directory.was_used else "clean" if self.directory.was_clean else "crash"
        self.cluster_id, self.directory_id = self.identity.cluster_id, self.identity.directory_uuid

    def _build(self) -> None:
        kernel = self.kernel
        metadata, others = self._join() if self.settings.is_member else (OwnMetadata(kernel), None)
        self.metadata, self.publisher = metadata, metadata.publisher
        self.cluster, self.cluster_state, self.producer_ids = metadata.cluster, metadata.state, metadata.producer_ids
        self.partitions = metadata.local_partitions.partitions
        self.strays = Strays(self.stepping, self.directory, self.cluster_state)
        self.request_topics = KnownTopics(self.cluster_state, self.fetch_sessions)
        self.quotas = ClientQuotaEnforcement(self.env, self.live_config, self.cluster_state.client_quotas)
        self._make_authorizer()
        self.housekeeping = Housekeeping(kernel, self.partitions)
        transport: MarkerTransport = LocalTransport(
            kernel, write=lambda request: write_txn_markers.write_markers(self, request), failed=write_txn_markers.failed
        )
        if others is not None:
            transport = others.transport(transport)
        made = self.coordinators = make_coordinators(kernel, metadata, self.housekeeping, transport, self.inflating)
        self.groups, self.transactions = made.groups, made.transactions
        self.share_states, self.share_partitions, self.share_groups = made.share_states, made.share_partitions, made.share_groups
        self.verification: Verification = LocalVerification(kernel, self.transactions, self.cluster_state)
        if others is not None:
            self.verification = others.verification(self.partitions, self.transactions, self.verification)

    def _join(self) -> tuple[MetadataSource, OtherCoordinators]:
        # Imported here: only a member of a cluster needs connections to other brokers.
        from ottla.broker.membership.joined_metadata import JoinedMetadata
        from ottla.broker.peers.other_coordinators import OtherCoordinators

        joined = JoinedMetadata(self.kernel, self.identity, self.addresses, self.connections.buffers, self._host.give_up)
        self.apis = BROKER_APIS.changed_by(joined.forwarding.through)
        return joined, OtherCoordinators(self.kernel, joined.state, joined.peers)

    def _make_authorizer(self) -> None:
        if self.settings.authorizer_class_name:
            # Imported here, because most brokers need no authorizer.
            from ottla.broker.apis.request_authorizer import acl_authorizer, enforcing

            self.authorizer = acl_authorizer(self.settings, self.cluster_state.acls.index, self.env)
            self.apis = self.apis.changed_by(enforcing(self.authorizer))

    def _create_first_users(self) -> None:
        if self._first_users:
            # Imported here, because most brokers create no users.
            from ottla.broker.handlers.support.first_users import create_first_users

            create_first_users(self, self._first_users)

    def _begin_housekeeping(self) -> None:
        repeat = self.housekeeping.repeat
        self.coordinators.begin_housekeeping(self.housekeeping)
        self.strays.begin()
        self.metadata.begin_housekeeping(repeat)
        self.housekeeping.start()
        repeat("idle_connections", lambda _: IDLE_TICK_MS, self.connections.close_idle, is_by_clock=False)
        repeat("directory", lambda _: DIRECTORY_CHECK_MS, self.kernel.disk_stop.check_directory, is_by_clock=False)

    def _audit(self) -> None:
        read = self.metadata.take_read()
        if self.settings.is_member or (self.directory.was_clean and not self.metadata.has_lost):
            # Records that a member of a cluster lacks are not lost: its replica may lag, and the leader has them.
            return
        forgotten_ms = self.env.now_ms() - self.settings.producer_id_expiration_ms
        self.torn = find_torn_transactions(self.partitions, self.metadata.topics_born(), read, forgotten_ms)
        log_torn_transactions(self.torn)

    def _resume(self) -> None:
        """Complete the transactions that were decided before the last stop; with ``ottla.durability=power``, sync the decisions
        first."""
        for partition in self.partitions:
            self.barrier.recovered(partition.log)
        self.transactions.resume()

    @property
    def is_sound(self) -> bool:
        """Whether the log directory accepts writes, and no log is offline. In Kafka a failed log takes the directory offline."""
        return self.disk.is_sound and not any(partition.log.is_offline for partition in self.partitions)

    @property
    def problems(self) -> list[str]:
        """A line of text for each log that is offline or damaged."""
        return problems_of(partition.log for partition in self.partitions)

    def _sync_refused(self, path: str, error: OSError) -> None:
        self.partitions.sync_refused(path, error)

    def _connection_closed(self, connection_id: int) -> None:
        self.share_partitions.disconnected(connection_id)

    @property
    def metrics_url(self) -> str | None:
        """The URL of the metrics for Prometheus; None if no metrics are served."""
        return self.shared.metrics.url

    def advertised(self, listener: str) -> tuple[str, int]:
        """Return the host and port that the broker advertises to clients of a listener."""
        return self.addresses.advertised(listener)

    @property
    def bootstrap(self) -> str:
        return self.addresses.bootstrap

    async def stop(self) -> None:
        """Accept no further requests, write all state to disk, and mark the directory clean. A second call does nothing."""
        if self.lifecycle.is_leaving or self.lifecycle.is_stopping:
            return
        self.lifecycle.is_leaving = True
        await self.metadata.leave()
        self._end_work()
        self.shared.close_listeners()
        log_unwritten(self.directory.close(self.metadata.broker_epoch))
        log.info("broker_stopped", unexpected_errors=self.unexpected_errors)

    def hand_over(self, *, is_written: bool) -> Inherited:
        """Stop, but keep the listeners open for the next broker in this process.

        Without ``is_written``, state is not written, so the next broker recovers the data as after a crash.
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
            metrics=self.shared.metrics.served,
        )

    def _end_work(self) -> None:
        self.metadata.close()
        self.housekeeping.stop()
        self.shared.end_work("the broker")
