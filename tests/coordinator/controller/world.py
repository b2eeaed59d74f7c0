"""A controller without a network, and the requests that brokers send to it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig
from ottla.coordinator.controller import heartbeats as beating
from ottla.coordinator.controller import registrations
from ottla.coordinator.controller.elections import Where
from ottla.coordinator.controller.heartbeats import BrokerHeartbeat, HeartbeatReply, Heartbeats
from ottla.coordinator.controller.placement import assigned, placed
from ottla.coordinator.controller.registrations import Registering
from ottla.coordinator.metadata.broker_registration import ListenerEndpoint
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, ClusterState
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import Effect, LogRecord, Result
from tests.coordinator.cluster.states import seen
from tests.support.world import ShardWorld

CLUSTER_ID = "cluster"
FEATURES = {"metadata.version": 33, "eligible.leader.replicas.version": 1}


class ControllerWorld(ShardWorld[ClusterState]):
    """A controller's cluster state, and the state of the brokers' heartbeats."""

    def __init__(self, brokers: int = 0, *, has_elr: bool = True, server: Mapping[str, str] | None = None) -> None:
        """Create a cluster of running brokers. ``server`` has the settings of the controller's server."""
        self.server = LiveConfig(BrokerConfig(server or {}))
        super().__init__(now_ms=1_000)
        self.heartbeats = Heartbeats()
        self.random = Random(7)
        self.incarnations: dict[int, int] = {}
        self.previous_epochs: dict[int, int] = {}
        self.run(self.state.set_features(FEATURES | {"eligible.leader.replicas.version": int(has_elr)}))
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)

    @property
    def state(self) -> ClusterState:
        return self.shard

    def new_shard(self) -> ClusterState:
        return ClusterState(0, server_config=self.server.topic_config)

    def replay(self, shard: ClusterState, record: LogRecord, offset: int) -> None:
        shard.replay(record, offset)
        dynamic = shard.config_of(BROKER_RESOURCE, "")
        if dynamic != self.server.current.dynamic:
            self.server.set_dynamic(dynamic)

    def apply(self, effect: Effect) -> None:
        self.heartbeats.apply(effect, len(self.log))

    def logged(self, shard: ClusterState) -> Any:
        return seen(shard)

    def snapshot(self) -> Any:
        beside = self.heartbeats
        offsets = dict(self.state.registrations.record_offsets)
        return seen(self.state), offsets, dict(beside.contacts_ms), dict(beside.metadata_offsets), dict(beside.shutdown_offsets)

    def registering(self, broker_id: int, **changed: Any) -> Registering:
        incarnation = broker_id * 1_000 + self.incarnations.get(broker_id, 0)
        fields = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": incarnation.to_bytes(16, "big"),
            "listeners": (ListenerEndpoint(name="PLAINTEXT", host="localhost", port=9_092, security_protocol=0),),
            "features": {"metadata.version": (7, 33), "eligible.leader.replicas.version": (0, 1)},
            "rack": "ab"[broker_id % 2],
            "directories": (directory(broker_id),),
            "previous_broker_epoch": self.previous_epochs.get(broker_id, -1),
        }
        return Registering(**{**fields, **changed})

    def registered(self, broker_id: int, **changed: Any) -> Result[int]:
        return registrations.register_broker(
            self.state,
            self.heartbeats,
            self.registering(broker_id, **changed),
            cluster_id=CLUSTER_ID,
            new_broker_epoch=len(self.log),
            now_ms=self.now_ms,
        )

    def start(self, broker_id: int) -> None:
        """Start a new process of a broker, which registers and is unfenced."""
        self.incarnations[broker_id] = self.incarnations.get(broker_id, 0) + 1
        self.run(self.registered(broker_id))
        assert not self.beat(broker_id).is_fenced

    def heartbeat(self, broker_id: int, **changed: Any) -> Result[HeartbeatReply]:
        fields = {
            "broker_id": broker_id,
            "broker_epoch": self.epoch(broker_id),
            # The offset of the last metadata record: the broker has applied all records.
            "current_metadata_offset": len(self.log) - 1,
        }
        return beating.heartbeat(self.state, self.heartbeats, BrokerHeartbeat(**{**fields, **changed}), self.now_ms)

    def beat(self, broker_id: int, **changed: Any) -> HeartbeatReply:
        return self.run(self.heartbeat(broker_id, **changed))

    def epoch(self, broker_id: int) -> int:
        return self.state.registrations.brokers[broker_id].broker_epoch

    def expire(self, *broker_ids: int) -> None:
        """Let the sessions of these brokers expire. All other brokers send a heartbeat in the meantime."""
        self.now_ms += self.heartbeats.session_timeout_ms + 1
        for broker in list(self.state.registrations.brokers.values()):
            if broker.broker_id not in broker_ids and not broker.is_fenced:
                self.beat(broker.broker_id)
        while self.run(beating.fence_expired_broker(self.state, self.heartbeats, self.now_ms)):
            pass

    def topic(self, name: str, *replicas: tuple[int, ...], **configs: str) -> Topic:
        partitions = assigned(self.state, dict(enumerate(replicas)))
        return self._create(name, partitions, configs)

    def placed_topic(self, name: str, partition_count: int, factor: int, **configs: str) -> Topic:
        return self._create(name, placed(self.state, partition_count, factor, self.random.randrange), configs)

    def _create(self, name: str, partitions: list[PartitionRegistration], configs: dict[str, str]) -> Topic:
        topic_id = self.random.randbytes(16)
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.run(self.state.create_topic(name, topic_id, len(partitions), named, partitions))
        return self.state.topics[name]

    def partition(self, name: str = "t", index: int = 0) -> PartitionRegistration:
        return self.state.topics[name].partitions[index]

    def where(self) -> list[Where]:
        return [(topic, index) for topic in self.state.topics.values() for index in range(topic.partition_count)]


def directory(broker_id: int, number: int = 1) -> bytes:
    return (broker_id * 1_000 + number).to_bytes(16, "big")
