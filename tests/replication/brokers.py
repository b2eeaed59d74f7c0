"""Brokers that replicate over a simulated network, without coordinators and without a controller process.

Each machine runs the broker's own replication: connections, Fetch, the replica manager, logs and checkpoints. The controller's
state lives in this process. A broker learns of changed metadata only when the test delivers it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import ALLOW_ALL
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.handlers import delete_records, fetch, list_offsets, produce
from ottla.broker.handlers.registry import BROKER_APIS
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.fetch_sessions import FetchSessions
from ottla.broker.limits.inflating import InflatingMemory
from ottla.broker.loop.env import Env
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES
from ottla.broker.network.addresses import Addresses
from ottla.broker.network.connection import Connection
from ottla.broker.network.listener import Connections
from ottla.broker.partitions.kernel import make_kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.peers.directory import BrokerListener, BrokerPeers
from ottla.broker.peers.peer import PeerLimits
from ottla.broker.peers.requests import Failure, PeerFailure, Then
from ottla.broker.replication.manager import ReplicaManager
from ottla.coordinator.controller import elections, heartbeats, in_sync, registrations
from ottla.coordinator.metadata.broker_registration import ListenerEndpoint
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import alter_partition, topic_record
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.protocol.steps import run
from ottla.simulation.env import START_MS
from ottla.simulation.links import Links
from ottla.simulation.node import PORT, Node
from ottla.simulation.scheduler import Scheduler
from ottla.storage.config import LogConfig
from tests.support.handling import Handling, handled

TOPIC, TOPIC_ID = "t", b"t" * 16
CLUSTER_ID = "a cluster"
SETTINGS = {
    "process.roles": "broker",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "200",
    "replica.lag.time.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "log.flush.offset.checkpoint.interval.ms": "2000",
}
LOG_CONFIG = LogConfig(segment_bytes=3_000, index_interval_bytes=200)


class ReplicaServer:
    """The server on a machine: the parts of `BrokerServer` that replication needs."""

    def __init__(self, world: ReplicaBrokersWorld, env: Env, config: BrokerConfig) -> None:
        self._world = world
        self.env = self.clock = self.timers = env
        self.live_config = LiveConfig(config)
        kernel = make_kernel(env, self.live_config, self._sync_refused)
        settings = config.settings
        self.broker_id = settings.node_id
        self.lifecycle, self.counters, self.stepping = kernel.lifecycle, kernel.counters, kernel.stepping
        self.directory, self.disk, self.barrier = kernel.directory, kernel.disk, kernel.barrier
        self.inflating = InflatingMemory(settings.ottla_inflating_memory_bytes)
        self.interception = self.transaction_listener = None
        self.cluster_id = CLUSTER_ID
        self.apis, self.services, self.request_topics = BROKER_APIS, self, SimpleNamespace()
        self.state = ClusterState(self.broker_id)
        self.quotas = ClientQuotaEnforcement(env, self.live_config, self.state.client_quotas)
        self.cluster = SimpleNamespace(state=self.state, features_epoch=0, is_alone=False)
        self.verification: Any = None
        self.authorizer = ALLOW_ALL
        self.addresses = Addresses(env, settings)
        self.connections = Connections(env, settings, 1_000)
        self.response_budget = self.connections.response_budget
        self.housekeeping = SimpleNamespace(delete_records=self.directory.delete_records)
        self.partitions = Partitions(kernel, lambda topic, index: None, lambda topic, index: None)
        self.fetch_sessions = FetchSessions(10, 1_000, lambda: int.from_bytes(env.random_uuid()[:4], "big") & 0x7FFFFFFF)
        self.peers = BrokerPeers(
            cast(Any, env),
            lambda: self.state.registrations,
            own_id=self.broker_id,
            listener=BrokerListener("PLAINTEXT"),
            buffers=self.connections.buffers,
            bug=self.bug,
            limits=PeerLimits(connect_ms=1_000, request_ms=2_000),
        )
        self.replicas = ReplicaManager(
            kernel,
            self.peers,
            controller=self,
            broker_epoch=lambda: self.state.registrations.brokers[self.broker_id].broker_epoch,
            live_epoch=self.live_epoch,
            check_directory=lambda partition, registration: None,
        )
        self.applied = 0
        self.served: dict[tuple[str, int], PartitionRegistration] = {}

    @property
    def unexpected_errors(self) -> int:
        return self.lifecycle.unexpected_errors

    def bug(self) -> None:
        """Raise the current exception again. Must be called in an ``except`` block."""
        error = sys.exception()
        assert error is not None
        raise error

    def _sync_refused(self, path: str, error: OSError) -> None:
        self.partitions.sync_refused(path, error)

    def live_epoch(self, broker_id: int) -> int | None:
        broker = self.state.registrations.brokers.get(broker_id)
        return broker.broker_epoch if broker is not None and broker.is_active else None

    def advertised(self, listener: str) -> tuple[str, int]:
        return self.addresses.advertised(listener)

    async def start(self) -> None:
        self.directory.acquire()
        await self.addresses.listen(lambda listener: Connection(cast(Any, self), listener))
        self.replicas.begin_housekeeping(self._repeat)
        self._repeat("checkpoints", lambda s: s.log_flush_offset_checkpoint_interval_ms, self.directory.write_checkpoints)

    async def stop(self) -> None:
        raise AssertionError("replication tests kill brokers and do not stop them")

    def _repeat(self, name: str, interval_ms: Callable[[Any], int], task: Callable[[], Any]) -> None:
        def begin() -> None:
            # Like `Housekeeping`, repeat the task after the interval if the disk refuses an operation.
            with suppress(OSError):
                steps = task()
                if steps is not None:
                    run(steps)
            self.env.call_later(interval_ms(self.live_config.settings), begin)

        self.env.call_later(interval_ms(self.live_config.settings), begin)

    def send(self, message: Any, then: Then) -> None:
        """Send a request to the controller (implements `replication.in_sync_changes.Controller`)."""
        self._world.asked(self, message, then)

    def learn(self, records: list[LogRecord]) -> None:
        """Apply metadata records, and start replication of the changed partitions: followers first, then leaders."""
        for record in records:
            self.state.replay(record, self.applied)
            self.applied += 1
        self.replicas.brokers_changed()
        for name, index in list(self.served):
            if self.broker_id not in self.state.topics[name].partitions[index].replicas:
                del self.served[name, index]
                self.replicas.stop(self.partitions.replica(name, index))
                run(self.partitions.remove(name, range(index, index + 1)))
        changed = [
            (topic, index, registration)
            for topic in self.state.topics.values()
            for index, registration in enumerate(topic.partitions)
            if self.broker_id in registration.replicas and self.served.get((topic.name, index)) != registration
        ]
        changed.sort(key=lambda one: one[2].leader == self.broker_id)
        for topic, index, registration in changed:
            self.served[topic.name, index] = registration
            partition = self.partitions.known(topic.name, index) or self._open(topic.name, index, topic.topic_id)
            if registration.leader == self.broker_id:
                self.replicas.lead(partition, registration)
            else:
                self.replicas.follow(partition, registration)

    def _open(self, name: str, index: int, topic_id: bytes) -> Partition:
        if (name, index) in set(self.directory.partitions_on_disk()):
            partition_log, _ = self.directory.open(name, index, self._world.log_config, self.env.now_ms(), topic_id)
            assert partition_log.offline_reason is None, partition_log.offline_reason
        else:
            partition_log = self.directory.create(name, index, self._world.log_config, topic_id)
        self.directory.loaded()
        return self.partitions.add(partition_log, is_led=False)

    def produce(
        self, value: bytes, then: Callable[[ProduceResponse], None], *, acks: int = -1, timeout_ms: int = 3_000, index: int = 0
    ) -> None:
        """Send one batch, without a socket. ``then`` gets the response, perhaps before this method returns."""
        batch = build_batch([(None, value)], self.env.now_ms())
        data = PartitionProduceData(index=index, records=memoryview(batch))
        request = ProduceRequest(
            acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(topic_id=TOPIC_ID, partition_data=[data])]
        )

        def answered(response: ProduceResponse | None) -> None:
            assert response is not None
            self.barrier.answer(lambda is_durable: then(response) if is_durable else None)

        Handling(produce.handle(cast(Any, self), request, self._context(13)), answered)

    def consume(
        self, then: Callable[[PartitionData], None], *, offset: int = 0, version: int = 18, rack: str = "", wait_ms: int = 5_000
    ) -> None:
        """Fetch as a consumer, without a socket."""
        asked = FetchTopic(
            topic=TOPIC,
            topic_id=TOPIC_ID,
            partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
        )
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[asked], rack_id=rack)

        def answered(response: FetchResponse) -> None:
            then(response.responses[0].partitions[0])

        Handling(fetch.handle(cast(Any, self), request, self._context(version)), answered)

    def last_offset(self, version: int, *, replica_id: int = -1) -> ListOffsetsPartitionResponse:
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])])
        response: ListOffsetsResponse = handled(list_offsets.handle(cast(Any, self), request, self._context(version)))
        return response.topics[0].partitions[0]

    def delete_records(self, offset: int, then: Callable[[DeleteRecordsPartitionResult], None], timeout_ms: int = 2_000) -> None:
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[asked])], timeout_ms=timeout_ms)

        def answered(response: DeleteRecordsResponse) -> None:
            then(response.topics[0].partitions[0])

        Handling(delete_records.handle(cast(Any, self), request, self._context(2)), answered)

    @staticmethod
    def _context(version: int) -> RequestContext:
        return RequestContext(version=version, client_id="", client_host="", connection_id=0, listener="PLAINTEXT")


class ReplicaBrokersWorld:
    """The brokers' machines, their network, and the controller's state."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        partitions: int = 1,
        min_in_sync: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.rng = random.Random(f"{seed}/world")
        self.scheduler = Scheduler(START_MS)
        self.links = Links(self.scheduler, random.Random(f"{seed}/network"))
        self.log_config = LogConfig(segment_bytes=3_000, index_interval_bytes=200, min_insync_replicas=min_in_sync)
        self.metadata: list[LogRecord] = []
        self.state = ClusterState(3_000, server_config=LiveConfig(BrokerConfig(settings or {})).topic_config)
        self.answers_controller = True
        self.nodes = {
            broker_id: Node(
                node_id=broker_id,
                host=f"broker-{broker_id}",
                scheduler=self.scheduler,
                links=self.links,
                rng=random.Random(f"{seed}/{broker_id}"),
                settings=SETTINGS | dict(settings or {}),
                features={},
                on_crash=self._crashed,
                make_server=lambda env, config, features: cast(Any, ReplicaServer(self, env, config)),
            )
            for broker_id in range(1, brokers + 1)
        }
        for node in self.nodes.values():
            self.start(node)
        self.log(metadata_record(topic_record, topic_record.TopicRecord(name=TOPIC, topic_id=TOPIC_ID)))
        ids = tuple(self.nodes)
        for index in range(partitions):
            replicas = ids[index % len(ids) :] + ids[: index % len(ids)]
            made = PartitionRegistration(replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0, partition_epoch=0)
            self.log(made.to_record(TOPIC_ID, index, 0))

    def server(self, broker_id: int) -> ReplicaServer:
        server = self.nodes[broker_id].server
        assert server is not None, f"broker {broker_id} is down"
        return cast(ReplicaServer, server)

    @property
    def up(self) -> dict[int, ReplicaServer]:
        return {broker_id: self.server(broker_id) for broker_id, node in self.nodes.items() if node.is_up}

    def partition(self, broker_id: int, index: int = 0) -> Partition:
        return self.server(broker_id).partitions.replica(TOPIC, index)

    def _crashed(self, node: Node) -> None:
        """Leave a crashed machine stopped until the test starts it again."""

    def start(self, node: Node, *, previous_epoch: int = -1) -> None:
        """Start a machine. Its broker registers, and is unfenced after it has read the metadata.

        ``previous_epoch`` is the broker epoch before a clean stop, as returned by `shut_down`.
        """
        node.start()
        assert node.is_up, "the broker did not start"
        registering = registrations.Registering(
            broker_id=node.node_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.rng.randbytes(16),
            listeners=(ListenerEndpoint(name="PLAINTEXT", host=node.host, port=PORT, security_protocol=0),),
            features=SUPPORTED_FEATURES,
            rack=f"rack-{node.node_id}",
            directories=(bytes([node.node_id]) * 16,),
            previous_broker_epoch=previous_epoch,
        )
        result = registrations.register_broker(
            self.state,
            heartbeats.Heartbeats(),
            registering,
            cluster_id=CLUSTER_ID,
            new_broker_epoch=len(self.metadata) + 1,
            now_ms=self.scheduler.now_ms,
        )
        self.log(*result.records)
        self.tell(node.node_id)
        self.log(*heartbeats.unfenced(self.state, self.state.registrations.brokers[node.node_id]))

    def kill(self, broker_id: int, *, power_cut: bool = False) -> None:
        self.nodes[broker_id].crash(power_cut=power_cut)

    def shut_down(self, broker_id: int) -> int:
        """Stop a broker cleanly after moving its leaderships to other brokers. Returns its broker epoch."""
        epoch = self.state.registrations.brokers[broker_id].broker_epoch
        self.fence(broker_id)
        self.tell_all()
        self.kill(broker_id)
        return epoch

    def fence(self, broker_id: int) -> None:
        """Expire a broker's session at the controller, which elects other leaders for its partitions where possible."""
        broker = self.state.registrations.brokers[broker_id]
        if not broker.is_fenced:
            self.log(*heartbeats.fenced(self.state, broker))

    def log(self, *records: LogRecord) -> None:
        for record in records:
            self.state.replay(record, len(self.metadata))
            self.metadata.append(record)

    def tell(self, broker_id: int) -> None:
        """Deliver all metadata records to a broker."""
        server = self.server(broker_id)
        with self.nodes[broker_id].at_work():
            server.learn(self.metadata[server.applied :])

    def tell_all(self) -> None:
        for broker_id in self.up:
            self.tell(broker_id)

    def move_leader(self, to: int, index: int = 0) -> None:
        topic = self.state.topics[TOPIC]
        before = topic.partitions[index]
        assert to in before.isr
        change = elections.PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, leader=to)
        self.log(elections.change_record(self.state, change))

    def registration(self, index: int = 0) -> PartitionRegistration:
        return self.state.topics[TOPIC].partitions[index]

    def asked(self, server: ReplicaServer, message: alter_partition.AlterPartitionRequest, then: Then) -> None:
        """Process AlterPartition at the controller.

        Request and response are each delayed. If the controller is silent, the request times out.
        """
        env = server.env

        def arrives() -> None:
            if not self.answers_controller:
                env.call_later(100, lambda: then(PeerFailure(Failure.TIMED_OUT, "no answer")))
                return
            answer = self._altered(message)
            env.call_later(self.links.delay_ms(), lambda: then(answer))

        env.call_later(self.links.delay_ms(), arrives)

    def _altered(self, message: alter_partition.AlterPartitionRequest) -> alter_partition.AlterPartitionResponse:
        asked = [
            in_sync.PartitionAsked(
                topic_id=topic.topic_id,
                index=p.partition_index,
                leader_epoch=p.leader_epoch,
                partition_epoch=p.partition_epoch,
                isr=tuple((b.broker_id, b.broker_epoch) for b in p.new_isr_with_epochs),
            )
            for topic in message.topics
            for p in topic.partitions
        ]
        try:
            result = in_sync.alter_partitions(self.state, message.broker_id, message.broker_epoch, asked)
        except KafkaError as error:
            return alter_partition.AlterPartitionResponse(error_code=error.code)
        self.log(*result.records)
        answers = [_partition_answer(one, answer) for one, answer in zip(asked, result.response, strict=True)]
        return alter_partition.AlterPartitionResponse(
            topics=[alter_partition.ResponseTopicData(topic_id=TOPIC_ID, partitions=answers)]
        )

    def wait(self, ms: float) -> None:
        self.scheduler.advance(ms)

    def settle(self, ms: float = 1_500) -> None:
        """Deliver all metadata to all brokers, and let the replicas catch up."""
        for _ in range(3):
            self.tell_all()
            self.wait(ms / 3)


def _partition_answer(
    asked: in_sync.PartitionAsked, answer: PartitionRegistration | KafkaError
) -> alter_partition.ResponsePartitionData:
    if isinstance(answer, KafkaError):
        return alter_partition.ResponsePartitionData(partition_index=asked.index, error_code=answer.code)
    return alter_partition.ResponsePartitionData(
        partition_index=asked.index,
        error_code=Code.NONE,
        leader_id=answer.leader,
        leader_epoch=answer.leader_epoch,
        isr=list(answer.isr),
        partition_epoch=answer.partition_epoch,
    )
