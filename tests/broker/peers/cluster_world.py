"""Two brokers in one process, on one network and clock. A test changes the metadata of both."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.directory import BrokerListener, BrokerPeers
from ottla.broker.peers.other_coordinators import OtherCoordinators
from ottla.broker.peers.peer import PeerEnv, PeerLimits
from ottla.coordinator.metadata.broker_registration import BrokerRegistration, ListenerEndpoint
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages import partition_change_record, topic_record
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.network import Network
from ottla.simulation.scheduler import Scheduler
from ottla.storage.following import append_as_follower
from ottla.storage.log import Log
from ottla.storage.reading import all_batches

ONE, TWO = 1, 2
TOPIC = "t"
IDS = {TOPIC: b"t" * 16, TRANSACTION_TOPIC: b"x" * 16, OFFSETS_TOPIC: b"o" * 16}
LISTENER, PORT = "PLAINTEXT", 9092


class ClusterWorld:
    """The first broker leads partition 0 of `TOPIC` and has both coordinators. The second broker leads partition 1."""

    def __init__(self, transaction_version: int = 2) -> None:
        self.scheduler, self.network = Scheduler(START_MS), Network()
        self.brokers = {broker_id: self._broker(broker_id, transaction_version) for broker_id in (ONE, TWO)}
        self.peers: dict[int, BrokerPeers] = {}
        for broker_id in self.brokers:
            self._join(broker_id)
        self.change([self._registration(broker_id) for broker_id in self.brokers])
        self.change(
            [
                *self._topic(TOPIC, (ONE, TWO)),
                *self._topic(TRANSACTION_TOPIC, (ONE,)),
                *self._topic(OFFSETS_TOPIC, (ONE,)),
            ]
        )
        self.sequences: dict[int, int] = {}

    def _broker(self, broker_id: int, transaction_version: int) -> SimulatedBroker:
        def env(fs: Any, rng: random.Random, now_ms: int) -> SimulatedEnv:
            made = SimulatedEnv(fs, rng, now_ms)
            made.scheduler, made.network = self.scheduler, self.network
            return made

        settings = {
            "node.id": str(broker_id),
            "listeners": f"{LISTENER}://broker-{broker_id}:{PORT}",
            "transaction.partition.verification.enable": "true",
        }
        broker = SimulatedBroker(settings, {"transaction.version": transaction_version}, seed=broker_id)
        broker.env_type = cast(Any, env)
        return broker.start()

    def _join(self, broker_id: int) -> None:
        server = self.brokers[broker_id].broker
        peers = self.peers[broker_id] = BrokerPeers(
            cast(PeerEnv, server.env),
            lambda: server.cluster_state.registrations,
            own_id=broker_id,
            listener=BrokerListener(LISTENER),
            buffers=ReceiveBuffers(),
            bug=server.lifecycle.work_failed,
            limits=PeerLimits(),
        )
        sender = server.transactions._completions._markers
        others = OtherCoordinators(server.kernel, server.cluster_state, peers)
        sender._transport = others.transport(sender._transport)
        server.verification = others.verification(server.partitions, server.transactions, server.verification)

    @staticmethod
    def _registration(broker_id: int, *, is_fenced: bool = False) -> LogRecord:
        endpoint = ListenerEndpoint(name=LISTENER, host=f"broker-{broker_id}", port=PORT, security_protocol=0)
        return BrokerRegistration(
            broker_id=broker_id,
            broker_epoch=10 + broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            listeners=(endpoint,),
            features={},
            is_fenced=is_fenced,
        ).to_record(33)

    @staticmethod
    def _topic(name: str, leaders: tuple[int, ...]) -> list[LogRecord]:
        records = [metadata_record(topic_record, topic_record.TopicRecord(name=name, topic_id=IDS[name]))]
        for index, leader in enumerate(leaders):
            partition = PartitionRegistration(replicas=(ONE, TWO), isr=(ONE, TWO), leader=leader, leader_epoch=3, partition_epoch=0)
            records.append(partition.to_record(IDS[name], index))
        return records

    def change(self, records: list[LogRecord], *broker_ids: int) -> None:
        """Apply records to the metadata of the brokers with these ids, or of both brokers."""
        for broker_id in broker_ids or self.brokers:
            server = self.brokers[broker_id].broker
            server.cluster.metadata_log.execute(Result(None, records))
            server.publisher.publish()

    def elect(self, topic: str, index: int, leader: int, *broker_ids: int) -> None:
        change = PartitionChangeRecord(topic_id=IDS[topic], partition_id=index, leader=leader)
        self.change([metadata_record(partition_change_record, change)], *broker_ids)

    def replicate(self, topic: str, index: int, leader: int) -> None:
        """Copy the leader's log to the other broker, as a follower would that has caught up."""
        source, target = self.log(leader, topic, index), self.log(ONE + TWO - leader, topic, index)
        for header, raw in all_batches(source):
            if header.base_offset >= target.log_end_offset:
                append_as_follower(target, bytes(raw), source.leader_epoch, START_MS)
        target.high_watermark = target.log_end_offset

    def log(self, broker_id: int, topic: str, index: int) -> Log:
        partition = self.brokers[broker_id].broker.partitions.known(topic, index)
        assert partition is not None
        return partition.log

    def call(self, broker_id: int, request: Any, version: int | None = None) -> Any:
        with self.brokers[broker_id].connect() as client:
            return client.call(request, version)

    def sleep(self, ms: float) -> None:
        self.scheduler.settle()
        self.scheduler.advance(ms)

    def init(self, coordinator: int = ONE, transactional_id: str = "x") -> Any:
        return self.call(coordinator, InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000))

    def add(self, producer: Any, *indexes: int, coordinator: int = ONE) -> int:
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=list(indexes))]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics,
        )
        answer = self.call(coordinator, request, 3)
        code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        return code

    def add_offsets(self, producer: Any, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, group_id=group_id
        )
        assert self.call(ONE, request, 3).error_code == 0

    def batch(self, producer: Any, index: int, version: int) -> ProduceRequest:
        sequence = self.sequences.get(index, 0)
        records = build_batch(
            [(None, b"v")],
            self.scheduler.now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = [PartitionProduceData(index=index, records=bytes(records))]
        topic = TopicProduceData(name=TOPIC, topic_id=IDS[TOPIC], partition_data=data)
        return ProduceRequest(transactional_id="x", acks=-1, timeout_ms=1_000, topic_data=[topic])

    def produce(self, producer: Any, index: int, *, version: int = 12, leader: int | None = None) -> int:
        request = self.batch(producer, index, version)
        answer = self.call((ONE, TWO)[index] if leader is None else leader, request, version)
        code: int = answer.responses[0].partition_responses[0].error_code
        if not code:
            self.sequences[index] = self.sequences.get(index, 0) + 1
        return code

    def end(self, producer: Any, *, commit: bool = True, version: int = 5, coordinator: int = ONE) -> Any:
        request = EndTxnRequest(
            transactional_id="x", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, committed=commit
        )
        return self.call(coordinator, request, version)

    def state(self, coordinator: int = ONE) -> str:
        label: str = self.brokers[coordinator].broker.transactions.shard_of("x").ids["x"].state.label
        return label

    def is_stable(self, index: int, leader: int | None = None) -> bool:
        """Whether a partition has no pending transaction."""
        log = self.log((ONE, TWO)[index] if leader is None else leader, TOPIC, index)
        return log.last_stable_offset == log.log_end_offset

    def close(self) -> None:
        for peers in self.peers.values():
            peers.close()
        for broker in self.brokers.values():
            broker.close()
        assert [broker.bugs for broker in self.brokers.values()] == [0, 0]


Intercept = Callable[[Any], bool]
"""Called with a message to the other broker. Returns whether the message is held."""


class HeldPeer:
    """Replaces the connections of one broker: requests are held until the test releases them."""

    def __init__(self, world: ClusterWorld, broker_id: int) -> None:
        self._real = world.peers[broker_id]
        self.held: list[tuple[int, Any, Any, dict[str, Any]]] = []
        self.sent: list[Any] = []
        self.is_holding = True
        server = world.brokers[broker_id].broker
        cast(Any, server.transactions._completions._markers._transport)._peers = self
        cast(Any, server.verification)._peers = self

    def peer(self, broker_id: int) -> Any:
        if self._real.peer(broker_id) is None:
            return None
        held = self

        class To:
            def send(self, message: Any, then: Any, **options: Any) -> None:
                held.sent.append(message)
                if held.is_holding:
                    held.held.append((broker_id, message, then, options))
                else:
                    held.pass_on(broker_id, message, then, options)

        return To()

    def pass_on(self, broker_id: int, message: Any, then: Any, options: dict[str, Any]) -> None:
        peer = self._real.peer(broker_id)
        assert peer is not None
        peer.send(message, then, **options)

    def let_go(self, *, is_holding: bool = False) -> None:
        held, self.held, self.is_holding = self.held, [], is_holding
        for one in held:
            self.pass_on(*one)

    def fail(self, failure: Any) -> None:
        held, self.held = self.held, []
        for _, _, then, _ in held:
            then(failure)
