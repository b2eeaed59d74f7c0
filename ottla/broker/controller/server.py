"""The controller process of a cluster: builds, starts and stops its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import ALLOW_ALL, RequestAuthorizer
from ottla.broker.apis.request_authorizer import acl_authorizer, enforcing
from ottla.broker.config.first_user import FirstUser
from ottla.broker.config.settings import BrokerConfig, Settings
from ottla.broker.controller.handlers.registry import CONTROLLER_APIS
from ottla.broker.controller.metadata import ControllerMetadata
from ottla.broker.controller.placement import ControllerPlacement
from ottla.broker.controller.services import ControllerServices
from ottla.broker.controller.sessions import TimedDecisions
from ottla.broker.handlers.support.first_users import create_first_users
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.loop.env import Clock, Env, Randomness, Timers
from ottla.broker.loop.logs import LOG_LEVELS
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES
from ottla.broker.metadata.request_topics import KnownTopics
from ottla.broker.network.dispatch import Client, Dispatcher
from ottla.broker.network.listener import IDLE_TICK_MS, controller_endpoints
from ottla.broker.network.listener_security import ListenerSecurity
from ottla.broker.partitions.disk_errors import take_offline
from ottla.broker.partitions.disk_health import log_unwritten
from ottla.broker.shared.shared_server import NO_HOST, Host, SharedServer
from ottla.coordinator.metadata.broker_registration import ControllerRegistration, ListenerEndpoint
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.metadata_log import DEFAULT_FEATURES, levels_with
from ottla.protocol.primitives import NO_UUID
from ottla.storage.filesystem import Damaged, described

KRAFT_VERSION = "kraft.version"
"""The feature whose level Kafka stores in control records of the metadata log."""

log = structlog.get_logger("controller")


class ControllerServer:
    """Owns all state of the only controller of a cluster. Only its event loop reads and changes the state."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        features: Mapping[str, int] | None = None,
        *,
        cluster_id: str | None = None,
        host: Host = NO_HOST,
        first_users: Sequence[FirstUser] = (),
    ) -> None:
        """``cluster_id`` is written into a new directory; with None an id is generated. A used directory keeps its cluster id.
        ``first_users`` are created before brokers connect, because brokers may authenticate as such users."""
        endpoints = controller_endpoints(config.settings)
        shared = self._shared = SharedServer(env, config, host, sync_refused=self._sync_refused, endpoints=endpoints)
        kernel = self._kernel = shared.kernel
        self.env = env
        self.clock: Clock = env
        self.timers: Timers = env
        self.randomness: Randomness = env
        self.services: ControllerServices = self
        self.authorizer: RequestAuthorizer = ALLOW_ALL
        self.live_config, self.lifecycle, self.stepping = kernel.config, kernel.lifecycle, kernel.stepping
        self.directory, self.disk, self.barrier, self.counters = kernel.directory, kernel.disk, kernel.barrier, kernel.counters
        self.interception, self.transaction_listener = host.interception, host.transaction_listener
        self.addresses, self.connections = shared.addresses, shared.connections
        self.security = ListenerSecurity(self, config, endpoints)
        self.response_budget = self.connections.response_budget
        self.log_levels, self.apis = LOG_LEVELS, CONTROLLER_APIS
        self._features, self._first_users = dict(features or {}), first_users
        self.cluster_id, self.directory_id = cluster_id or "", NO_UUID

    @property
    def cluster_state(self) -> ClusterState:
        return self.controller.state

    @property
    def settings(self) -> Settings:
        return self.live_config.settings

    def _sync_refused(self, path: str, error: OSError) -> None:
        """Take the metadata log offline after a failed sync, because brokers must not read records that may be lost."""
        partition_log = self.controller.log.log
        if isinstance(error, Damaged) and (path == partition_log.directory or path.startswith(f"{partition_log.directory}/")):
            take_offline(partition_log, described(error))
            self.controller.log.partition.wake_where_offline()
        else:
            self.disk.refused(path, error)

    async def start(self) -> None:
        """Load the metadata and listen. Raises `DirectoryError`, `ConfigError` or OSError for an error that a person must fix."""
        self.directory.acquire()
        try:
            identity = self._shared.identify(self.cluster_id or None)
            self.cluster_id, self.directory_id = identity.cluster_id, identity.directory_uuid
            self.controller = ControllerMetadata(self._kernel, self.cluster_id)
            self.cluster = self.controller.cluster
            self.placement = ControllerPlacement(self.env, self.live_config, self.controller.state)
            self.request_topics = KnownTopics(self.controller.state)
            self.quotas = ClientQuotaEnforcement(self.env, self.live_config, self.controller.state.client_quotas)
            if self.settings.authorizer_class_name:
                self.authorizer = acl_authorizer(self.settings, self.controller.state.acls.index, self.env)
                self.apis = CONTROLLER_APIS.changed_by(enforcing(self.authorizer))
            await self.addresses.listen(self.security.connection)
            # Load the metadata after the listeners are bound, because the controller registers their ports. Requests wait until
            # this function has ended.
            self._shared.metrics.open_for_controller(self.controller.report, self)
            self._load()
        except BaseException:
            self._shared.close_listeners()
            self.directory.abandon()
            raise
        self.lifecycle.is_serving = True
        self._begin_timed_work()
        log.info("controller_started", listening=self.addresses.bootstrap, data_dir=self.directory.path)

    def _load(self) -> None:
        levels = levels_with(DEFAULT_FEATURES, self._features)
        levels.pop(KRAFT_VERSION, None)
        listeners = [
            ListenerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in self.addresses.all_advertised
        ]
        registration = ControllerRegistration(
            controller_id=self.settings.node_id,
            incarnation_id=self.env.random_uuid(),
            listeners=tuple(listeners),
            features=dict(SUPPORTED_FEATURES),
        )
        self.controller.load(levels, registration)
        if self._first_users:
            create_first_users(self, self._first_users)
        self.directory.loaded()

    def _begin_timed_work(self) -> None:
        settings = self.settings
        is_rebalancing = settings.auto_leader_rebalance_enable
        self._timed = TimedDecisions(
            self.env,
            self.controller,
            self.lifecycle,
            rebalance_interval_ms=settings.leader_imbalance_check_interval_seconds * 1_000 if is_rebalancing else None,
            unclean_interval_ms=settings.unclean_leader_election_interval_ms,
            token_interval_ms=settings.delegation_token_expiry_check_interval_ms if settings.delegation_token_secret_key else None,
        )
        self._timed.start()
        self._idle_timer = self.env.call_later(IDLE_TICK_MS, self._close_idle)

    def _close_idle(self) -> None:
        self.connections.close_idle()
        self._idle_timer = self.env.call_later(IDLE_TICK_MS, self._close_idle)

    @property
    def metrics_url(self) -> str | None:
        """The URL of the metrics for Prometheus; None if no metrics are served."""
        return self._shared.metrics.url

    def advertised(self, listener: str) -> tuple[str, int]:
        return self.addresses.advertised(listener)

    def dispatcher(self, client_host: str, context: RequestContext) -> Dispatcher:
        # The controller throttles no client: the forwarding broker does so, by the throttle time in the controller's response.
        return Dispatcher(self, context.listener, Client(client_host, context.connection_id, throttle=lambda for_ms: None))

    async def stop(self) -> None:
        """Accept no further requests, write all state to disk, and mark the directory clean."""
        if self.lifecycle.is_stopping:
            return
        self._timed.stop()
        self._idle_timer.cancel()
        self._shared.end_work("the controller")
        self._shared.close_listeners()
        log_unwritten(self.directory.close())
        log.info("controller_stopped", unexpected_errors=self.lifecycle.unexpected_errors)
