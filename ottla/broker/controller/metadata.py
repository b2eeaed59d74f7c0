"""The cluster's metadata at its controller: decides on requests of brokers and clients, and fences brokers whose session ends.

Every decision is made by `coordinator.controller`, appended to ``__cluster_metadata-0``, and only then replayed. Brokers fetch this
log as observers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import structlog

from ottla.broker.controller.changes import Cause, DecisionLog, caused_by
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.metadata.metadata_log import LocalMetadataLog, metadata_not_written
from ottla.broker.metrics.controller_report import ControllerReport
from ottla.broker.partitions.kernel import Kernel
from ottla.coordinator.controller import directories, elections, heartbeats, in_sync, policies, reassignment, registrations
from ottla.coordinator.controller.heartbeats import BrokerHeartbeat, HeartbeatReply, Heartbeats
from ottla.coordinator.controller.in_sync import PartitionAnswer, PartitionAsked
from ottla.coordinator.controller.registrations import Registering
from ottla.coordinator.metadata.broker_registration import ControllerRegistration
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, ClusterState
from ottla.coordinator.metadata.server_config import MIN_INSYNC_REPLICAS
from ottla.coordinator.result import Effect, Result
from ottla.protocol.errors import KafkaError

MAX_ELECTIONS_AT_ONCE = 1_000
"""Upper bound on the leaders that one decision elects (ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE)."""

T = TypeVar("T")

log = structlog.get_logger("controller")


class ControllerMetadata:
    """The cluster's metadata, its log, and the sessions of the brokers."""

    def __init__(self, kernel: Kernel, cluster_id: str) -> None:
        config = self._config = kernel.config
        self._env = kernel.env
        self._cluster_id = cluster_id
        self.node_id = config.settings.node_id
        self.state = ClusterState(self.node_id, server_config=config.topic_config)
        if config.settings.delegation_token_secret_key:
            self.state.tokens.use_key(config.settings.delegation_token_secret_key)
        self._decisions = DecisionLog(self.state)
        self._expired_sessions = 0
        self.heartbeats = Heartbeats(config.settings.broker_session_timeout_ms)
        self.log = LocalMetadataLog(kernel, self.state, self._carry_out_effect)
        self.cluster = ClusterCommands(
            randomness=kernel.env,
            config=config,
            state=self.state,
            metadata_log=self.log,
            publish=self._set_dynamic_configs,
            decide_features=self._decide_features,
        )

    def _carry_out_effect(self, effect: Effect) -> None:
        self.heartbeats.apply(effect, self.end_offset)

    def load(self, features: dict[str, int], registration: ControllerRegistration) -> None:
        """Replay the log, begin a new leader epoch, and register this controller in the log.

        To an empty log the feature levels ``features`` are written first. Raises `DirectoryError` if the log cannot be read or
        written.
        """
        is_new = self.log.load()
        self.log.begin_epoch()
        try:
            self._execute(self._decide_features(features if is_new else {}))
            if self.state.metadata_version >= registrations.CONTROLLER_REGISTRATION:
                self._execute(registrations.register_controller(self.state, registration))
        except KafkaError as error:
            raise metadata_not_written(error) from error
        self.heartbeats.start(self.state, self._env.steady_ms())
        self._set_dynamic_configs()
        self._log_overridden()

    def _decide_features(self, levels: Mapping[str, int]) -> Result[None]:
        return policies.set_features(self.state, levels, self._config.current.static_text(MIN_INSYNC_REPLICAS) or "1")

    def _log_overridden(self) -> None:
        """Log that ``min.insync.replicas`` in the cluster's metadata overrides the value with which this controller was started."""
        given, in_force = self._config.current.given.get(MIN_INSYNC_REPLICAS), self._config.topic_config(MIN_INSYNC_REPLICAS)
        if given not in (None, in_force):
            log.warning(
                "setting_overridden",
                setting=MIN_INSYNC_REPLICAS,
                given=given,
                used=in_force,
                hint="the cluster keeps the value of its first start; 'ottla config set broker default' changes it",
            )

    def _set_dynamic_configs(self, named: Collection[str] = ()) -> None:
        """Apply the configs that clients have set for all nodes or for this node. ``named``: see `LiveConfig.set_dynamic`."""
        dynamic = self.state.config_of(BROKER_RESOURCE, "") | self.state.config_of(BROKER_RESOURCE, str(self.node_id))
        if named or dynamic != self._config.current.dynamic:
            self._config.set_dynamic(dynamic, named)

    def _execute(self, result: Result[T], cause: Cause | None = None) -> T:
        """Append and replay a decision. A ``cause`` is logged with the changed partitions and the fenced brokers."""
        if cause is None or not result.records:
            return self.log.execute(result)
        before = self._decisions.before(result.records)
        response = self.log.execute(result)
        self._decisions.report(before, cause)
        return response

    def report(self) -> ControllerReport:
        """The values for the controller's metrics."""
        counts = self._decisions.elections
        return ControllerReport(
            state=self.state,
            end_offset=self.end_offset,
            high_watermark=self.log.high_watermark,
            unclean_elections=counts.unclean,
            eligible_elections=counts.eligible,
            expired_sessions=self._expired_sessions,
            silence_ms=self.heartbeats.silence_ms(self.state, self._env.steady_ms()),
        )

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def leader_epoch(self) -> int:
        return self.log.leader_epoch

    def register_broker(self, asked: Registering) -> int:
        """Register a broker; returns its epoch. Raises the errors of `registrations.register_broker`."""
        result = registrations.register_broker(
            self.state,
            self.heartbeats,
            asked,
            cluster_id=self._cluster_id,
            new_broker_epoch=self.end_offset,
            now_ms=self._env.steady_ms(),
        )
        epoch = self._execute(result, caused_by(asked.broker_id, "was restarted"))
        log.info("broker_registered", broker_id=asked.broker_id, broker_epoch=epoch)
        return epoch

    def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker's registration. Raises BROKER_ID_NOT_REGISTERED."""
        self._execute(registrations.unregister_broker(self.state, broker_id), Cause(f"broker {broker_id} was unregistered"))
        log.info("broker_unregistered", broker_id=broker_id, reason="a client requested it")

    def heartbeat(self, asked: BrokerHeartbeat) -> HeartbeatReply:
        """Process a heartbeat. Raises STALE_BROKER_EPOCH."""
        result = heartbeats.heartbeat(self.state, self.heartbeats, asked, self._env.steady_ms())
        return self._execute(result, _cause_of(asked))

    def fence_expired_brokers(self) -> None:
        """Fence the brokers whose session has timed out. Their partitions get other leaders."""
        now_ms = self._env.steady_ms()
        for broker_id, _ in self.heartbeats.expired(now_ms):
            # In each iteration, `fence_expired_broker` fences the first broker that `expired` returns, and ends its session.
            result = heartbeats.fence_expired_broker(self.state, self.heartbeats, now_ms)
            silence = f"sent no heartbeat for {self.heartbeats.session_timeout_ms} ms"
            self._execute(result, caused_by(broker_id, silence, is_failure=True))
            # If the broker was already fenced, its session ends without a record.
            self._expired_sessions += bool(result.records)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Allocate a block of producer ids. Raises STALE_BROKER_EPOCH."""
        return self._execute(registrations.allocate_producer_ids(self.state, broker_id, broker_epoch))

    def alter_partitions(self, broker_id: int, broker_epoch: int, asked: Iterable[PartitionAsked]) -> list[PartitionAnswer]:
        """Change in-sync sets as a partition leader requests. Raises STALE_BROKER_EPOCH."""
        cause = Cause(f"the leader, broker {broker_id}, requested it")
        return self._execute(in_sync.alter_partitions(self.state, broker_id, broker_epoch, asked), cause)

    def elect_leaders(self, election_type: int, topic: str, indexes: Sequence[int]) -> dict[int, KafkaError | None]:
        """Elect leaders for partitions of a topic. Returns an error or None for each partition. Raises INVALID_REQUEST for an
        unknown election type."""
        result = elections.elect_leaders(self.state, election_type, [(topic, indexes)])
        kind = "an unclean election" if election_type == elections.UNCLEAN_ELECTION else "the election of the preferred leader"
        return self._execute(result, Cause(f"a client requested {kind}"))[topic]

    def reassign(self, asked: Mapping[tuple[str, int], tuple[int, ...] | None]) -> reassignment.Answers:
        """Begin to move partitions to other replicas; None cancels a move. Returns an error or None for each partition."""
        return self._execute(reassignment.reassign(self.state, asked), Cause("a client requested other replicas"))

    def assign_directories(
        self, broker_id: int, broker_epoch: int, asked: Iterable[tuple[bytes, bytes, int]]
    ) -> list[KafkaError | None]:
        """Record in which log directories a broker keeps its replicas. Raises STALE_BROKER_EPOCH."""
        cause = caused_by(broker_id, "moved its replica to another log directory")
        return self._execute(directories.assign_directories(self.state, broker_id, broker_epoch, asked), cause)

    def sweep_tokens(self) -> bool:
        """Remove expired delegation tokens; returns whether expired tokens remain."""
        return self.cluster.sweep_tokens(self._env.now_ms())

    def rebalance_leaders(self) -> bool:
        """Elect preferred leaders; returns whether more elections are needed."""
        cause = Cause("the preferred leader is in sync again")
        return self._execute(elections.rebalance_leaders(self.state, MAX_ELECTIONS_AT_ONCE), cause)

    def elect_unclean_leaders(self) -> bool:
        """Elect unclean leaders where no in-sync replica is live and the topic allows it. Returns whether more elections are
        needed."""
        cause = Cause("no replica in sync is running, and the topic allows unclean elections")
        return self._execute(elections.elect_unclean_leaders(self.state, MAX_ELECTIONS_AT_ONCE), cause)


def _cause_of(asked: BrokerHeartbeat) -> Cause:
    broker_id = asked.broker_id
    if asked.want_shut_down:
        return caused_by(broker_id, "is shutting down")
    if asked.want_fence:
        return Cause(f"broker {broker_id} requested to be fenced", "the broker requested it")
    if asked.offline_directories:
        return caused_by(broker_id, "has a log directory that failed")
    return Cause(f"broker {broker_id} was unfenced", "the broker has read the metadata log up to its registration")
