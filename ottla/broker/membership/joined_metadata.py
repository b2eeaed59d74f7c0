"""The cluster's metadata on a broker that fetches it from a controller elsewhere.

The counterpart of `broker.metadata.own_metadata`. The log is also copied to this broker's directory, so that a start need not fetch
it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog

from ottla.addresses import broker_address, joined_address
from ottla.arguments import BadArgument
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security_protocols import BETWEEN_BROKERS, OF_CONTROLLER, SecurityProtocol, protocol_of
from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import Waiter
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.membership.controller_log import ControllerLog
from ottla.broker.membership.directory_assignments import DirectoryAssignments
from ottla.broker.membership.forwarding import Forwarding
from ottla.broker.membership.lifecycle import BrokerIdentity, BrokerLifecycle, Intervals
from ottla.broker.membership.membership import Membership
from ottla.broker.membership.metadata_copy import MetadataCopy
from ottla.broker.membership.metadata_fetch import MetadataFetch
from ottla.broker.membership.metadata_replica import MetadataReplica
from ottla.broker.membership.producer_ids import ControllerProducerIds
from ottla.broker.membership.states import BrokerState
from ottla.broker.membership.topic_creation import ControllersTopics
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES, ClusterCommands
from ottla.broker.metadata.local_partitions import LocalPartitions
from ottla.broker.metadata.metadata_listener import MetadataListener
from ottla.broker.metadata.metadata_publisher import MetadataPublisher
from ottla.broker.metadata.metadata_source import Repeat
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.broker.network.addresses import Addresses
from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.peers.directory import BrokerListener, BrokerPeers
from ottla.broker.peers.peer import Peer
from ottla.broker.replication.manager import ReplicaManager
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import DecodeError
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.identity import DirectoryError
from ottla.storage.identity import DirectoryIdentity as StoredIdentity
from ottla.storage.transaction_history import TransactionHistory

if TYPE_CHECKING:
    from ottla.broker.config.settings import BrokerConfig
    from ottla.broker.peers.security import PeerSecurity
    from ottla.client.security.client_config import Connecting

IDS_AHEAD = 100
"""When only this many producer ids are left, the next block is requested (RPCProducerIdManager)."""
CONTROLLED_SHUTDOWN_MS = 20_000
"""How long a stop waits for the controller to move this broker's leaderships, in ms. Apache Kafka waits for five minutes."""

log = structlog.get_logger("membership")


def controller_address(settings: Settings) -> tuple[str, int]:
    """Return the address of the controller, from ``controller.quorum.bootstrap.servers`` or ``controller.quorum.voters``.

    Raises `ConfigError` for a quorum of several controllers, because changes of its leader are not supported.
    """
    texts = settings.controller_quorum_bootstrap_servers
    name = "controller.quorum.bootstrap.servers"
    if not texts:
        name = "controller.quorum.voters"
        texts = tuple(text.partition("@")[2] for text in settings.controller_quorum_voters)
    if len(texts) != 1:
        raise ConfigError(f"{name}: give one controller as HOST:PORT; process.roles=broker needs it")
    try:
        host, port = broker_address(texts[0])
    except BadArgument as error:
        raise ConfigError(f"{name}: {error}") from None
    return host, port


class JoinedMetadata:
    """The metadata of a member of a cluster: `load` joins the cluster, `leave` leaves it. The constructor raises `ConfigError`."""

    def __init__(
        self,
        kernel: Kernel,
        identity: StoredIdentity,
        addresses: Addresses,
        buffers: ReceiveBuffers,
        give_up: Callable[[DirectoryError], None],
    ) -> None:
        """``addresses`` are bound already. ``give_up`` is called once if this broker cannot continue and must be restarted."""
        env, settings, bug = kernel.env, kernel.config.settings, kernel.lifecycle.work_failed
        self._env = env
        self._errors = RepeatedErrors(env, log)
        self._address = controller_address(settings)
        self._timeout_ms = settings.initial_broker_registration_timeout_ms
        self.state = ClusterState(settings.node_id, ignores_case=kernel.directory.ignores_case(), is_member=True)
        if settings.delegation_token_secret_key:
            self.state.tokens.use_key(settings.delegation_token_secret_key)
        self.lifecycle = BrokerLifecycle(
            _identity(settings, identity, addresses, env.random_uuid(), kernel.directory.previous_epoch), _intervals(settings)
        )

        of_controller = _security(kernel, (settings.controller_listener_names or ("CONTROLLER",))[0].upper(), OF_CONTROLLER)
        of_brokers = _security(kernel, addresses.between_brokers, BETWEEN_BROKERS)

        def peer(purpose: str) -> Peer:
            client_id = f"broker-{settings.node_id}-{purpose}"
            return Peer(env, self._address, client_id=client_id, bug=bug, buffers=buffers, security=of_controller)

        self._in_sync_changes, self._directories = peer("in-sync"), peer("directories")
        self._assignments = DirectoryAssignments(env, self._directories, self.lifecycle, self.state, identity.directory_uuid)
        self.peers = BrokerPeers(
            env,
            lambda: self.state.registrations,
            own_id=settings.node_id,
            listener=BrokerListener(addresses.between_brokers, of_brokers),
            buffers=buffers,
            bug=bug,
        )
        self.replicas = ReplicaManager(
            kernel,
            self.peers,
            controller=self._in_sync_changes,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            live_epoch=self._live_epoch,
            check_directory=self._assignments.check,
        )
        self.local_partitions = LocalPartitions(kernel, self.state, self.replicas)
        self.publisher = MetadataPublisher(self.state, kernel.config, self.local_partitions)
        self.controller = peer("forward")
        replica = MetadataReplica(self._apply, self._applied, MetadataCopy(env, kernel.directory))
        self.membership = Membership(
            env,
            lifecycle=self.lifecycle,
            fetch=MetadataFetch(identity.cluster_id, settings.node_id, identity.directory_uuid),
            replica=replica,
            heartbeats=peer("heartbeat"),
            fetches=peer("metadata"),
            owner=self,
        )
        self._give_up_broker = give_up
        self._has_lost_controller = False
        self.cluster = ClusterCommands(
            randomness=env,
            config=kernel.config,
            state=self.state,
            metadata_log=ControllerLog(replica),
            publish=lambda own_configs: self.publisher.publish(),
            controller=ControllersTopics(env, self.controller),
        )
        self.producer_ids = ProducerIds(ControllerProducerIds(self.lifecycle, self.controller), ahead=IDS_AHEAD)
        self.forwarding = Forwarding(env, self.controller)
        self._awaited: tuple[BrokerState, Waiter] | None = None

    def _live_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is registered, and neither fenced nor shutting down; None for other brokers."""
        broker = self.state.registrations.brokers.get(broker_id)
        return broker.broker_epoch if broker is not None and broker.is_active else None

    # Changes of the metadata

    def _apply(self, record: LogRecord, offset: int) -> None:
        try:
            self.state.replay(record, offset)
        except DecodeError as error:
            hint = "the controller has another release"
            self._errors.failed("metadata_record_skipped", str(error), level="error", offset=offset, hint=hint)

    def _applied(self) -> None:
        self.publisher.publish()
        known = self.state.registrations.brokers.get(self.state.node_id)
        if known is None and self.lifecycle.state is BrokerState.RUNNING and self.lifecycle.is_registered:
            # A client has unregistered this running broker: register again (BrokerRegistrationTracker).
            log.warning("broker_unregistered", hint="the broker registers again")
            self.membership.register_again()

    def metadata_lost(self, reason: str) -> None:
        """Stop this broker cleanly. The next start reads the metadata from its beginning (KafkaRaftClient's fault handler)."""
        log.error(
            "metadata_lost", reason=reason, hint="this broker stops; restart it, and it reads the controller's metadata again"
        )
        self._has_lost_controller = True
        self._give_up_broker(DirectoryError(f"{reason}; restart this broker, and it reads the controller's metadata again"))

    def controller_replaced(self, reason: str) -> None:
        """Reconnect, because a request on a connection to the previous controller would wait until its timeout."""
        for peer in (self.controller, self._in_sync_changes, self._directories):
            peer.reconnect(reason)

    def state_changed(self) -> None:
        """End the wait of `_until` when the broker has reached the awaited state, or can no longer reach it."""
        is_over = self.membership.is_of_another_cluster
        if self._awaited is not None and (is_over or self.lifecycle.state >= self._awaited[0]):
            self._give_up()

    def _give_up(self) -> None:
        if self._awaited is not None:
            self._awaited[1].release()

    # Start and stop of the broker

    async def load(self, features: Mapping[str, int], listener: MetadataListener) -> None:
        """Register, catch up with the metadata, and put this broker's replicas into service. ``features`` is not used.

        Raises `ConfigError` if the controller is of another cluster, or if the broker has not caught up within
        ``initial.broker.registration.timeout.ms``.
        """
        self.membership.start()
        try:
            is_in = await self._until(BrokerState.RECOVERY, self._timeout_ms)
        except BaseException:
            # The process is stopped before the controller has responded.
            self.close()
            raise
        where = joined_address(self._address)
        if self.membership.is_of_another_cluster:
            self.close()
            own = self.lifecycle.identity.cluster_id
            raise ConfigError(
                f"the controller at {where} belongs to another cluster than this broker, whose directory has the cluster id {own}:"
                " give the address of that cluster's controller, or a directory without meta.properties"
            )
        if not is_in:
            self.close()
            reason = self.membership.last_failure or "the metadata has not been read yet"
            raise ConfigError(f"this broker did not catch up with the controller at {where} within {self._timeout_ms} ms: {reason}")
        self.publisher.begin(listener)

    def skip_known_ids(self, least: int, known: Callable[[], int]) -> None:
        """Do nothing: the controller allocates producer ids, and knows the allocated ids."""

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    def begin_housekeeping(self, repeat: Repeat) -> None:
        self.replicas.begin_housekeeping(repeat)

    async def serve(self) -> None:
        """Ask the controller to unfence this broker, and wait at most ``initial.broker.registration.timeout.ms``."""
        self.membership.become_ready()
        self.producer_ids.ask_ahead()
        if not await self._until(BrokerState.RUNNING, self._timeout_ms):
            log.warning("broker_not_unfenced", hint="the controller does not let this broker lead partitions yet")

    async def leave(self) -> None:
        """Let the controller move this broker's leaderships to other brokers, for up to `CONTROLLED_SHUTDOWN_MS`."""
        if self._has_lost_controller:
            # Do not wait for a controller that has lost metadata, and may not know this broker.
            return
        self.membership.begin_controlled_shutdown()
        if not await self._until(BrokerState.SHUTTING_DOWN, CONTROLLED_SHUTDOWN_MS):
            log.warning("controlled_shutdown_timed_out", after_ms=CONTROLLED_SHUTDOWN_MS)

    def close(self) -> None:
        """Stop sending requests. If `leave` was not called before, the controller fences this broker when its session ends."""
        self.membership.stop()
        self.replicas.close()
        self._assignments.close()
        self._in_sync_changes.close()
        self._directories.close()
        self.controller.close()

    async def _until(self, state: BrokerState, limit_ms: float) -> bool:
        """Wait for at most ``limit_ms`` until the broker has reached a state. Returns whether the state was reached."""
        if self.lifecycle.state < state:
            reached = self._env.waiter()
            self._awaited = (state, reached)
            timer = self._env.call_later(limit_ms, self._give_up)
            await reached
            timer.cancel()
            self._awaited = None
        return self.lifecycle.state >= state

    @property
    def has_lost(self) -> bool:
        return self.local_partitions.has_lost

    def take_read(self) -> dict[TopicPartition, TransactionHistory]:
        return self.local_partitions.take_read()

    def topics_born(self) -> dict[str, int]:
        """Return nothing: creation times are unknown here, so no topic counts as newer than a transaction."""
        return {}


def _security(kernel: Kernel, listener: str, mechanism_key: str) -> PeerSecurity | None:
    """TLS and SASL of the connections to a listener of other nodes; None for a plain listener. Raises `ConfigError`."""
    config = kernel.config.current
    protocol = protocol_of(config.settings.listener_security_protocol_map, listener)
    if protocol is SecurityProtocol.PLAINTEXT:
        return None
    # Imported here, because plain connections need no TLS and SASL.
    from ottla.broker.config.node_security import node_security
    from ottla.broker.peers.security import PeerSecurity

    secret = (kernel.env.random_uuid() + kernel.env.random_uuid()).hex().encode()

    def connecting(changed: BrokerConfig) -> Connecting:
        return node_security(changed, listener, protocol, mechanism_key, secret, lambda: kernel.env.now_ms() / 1_000)

    security = PeerSecurity(kernel.env, connecting, config, listener)
    kernel.config.parts.append(security)
    return security


def _identity(
    settings: Settings, stored: StoredIdentity, addresses: Addresses, incarnation_id: bytes, previous_epoch: int
) -> BrokerIdentity:
    return BrokerIdentity(
        broker_id=settings.node_id,
        cluster_id=stored.cluster_id,
        incarnation_id=incarnation_id,
        listeners=addresses.all_advertised,
        features=tuple((name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()),
        rack=settings.broker_rack,
        log_directories=(stored.directory_uuid,),
        previous_epoch=previous_epoch,
    )


def _intervals(settings: Settings) -> Intervals:
    return Intervals(heartbeat_ms=settings.broker_heartbeat_interval_ms, session_ms=settings.broker_session_timeout_ms)
