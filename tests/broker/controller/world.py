"""A controller in a simulated world, and stand-ins for brokers that only send it requests."""

from __future__ import annotations

from typing import Any

from ottla.broker.metadata.cluster import SUPPORTED_FEATURES
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.result import LogRecord
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.records import batches
from ottla.simulation.client import SimulatedClient
from ottla.simulation.controller import SimulatedController
from ottla.storage.reading import records_of

METADATA_ID = bytes(15) + b"\1"
FEATURES = [Feature(name=n, min_supported_version=low, max_supported_version=high) for n, (low, high) in SUPPORTED_FEATURES.items()]


def uuid(number: int) -> bytes:
    return (1_000_000 + number).to_bytes(16, "big")


class Broker:
    """A simulated broker's requests to the controller: registration, heartbeats and metadata fetches."""

    def __init__(self, controller: SimulatedController, broker_id: int, rack: str | None = None) -> None:
        self.controller = controller
        self.broker_id = broker_id
        self.rack = rack
        self.incarnation = broker_id * 1_000
        self.epoch = -1
        self.client: SimulatedClient = controller.connect(f"broker-{broker_id}")
        # The metadata that this broker has fetched and applied.
        self.state = ClusterState(broker_id)
        self.end_offset = self.last_epoch = self.leader_epoch = 0

    def register(self, **fields: Any) -> Any:
        own = {
            "broker_id": self.broker_id,
            "cluster_id": self.controller.server.cluster_id,
            "incarnation_id": uuid(self.incarnation),
            "listeners": [Listener(name="PLAINTEXT", host="127.0.0.1", port=9_000 + self.broker_id, security_protocol=0)],
            "features": FEATURES,
            "rack": self.rack,
            "log_dirs": [uuid(self.broker_id)],
        }
        answer = self.client.call(BrokerRegistrationRequest(**{**own, **fields}))
        if not answer.error_code:
            self.epoch = answer.broker_epoch
        return answer

    def beat(self, **fields: Any) -> Any:
        own = {"broker_id": self.broker_id, "broker_epoch": self.epoch, "current_metadata_offset": self.end_offset - 1}
        return self.client.call(BrokerHeartbeatRequest(**{**own, "want_fence": False, "want_shut_down": False, **fields}))

    def fetch_request(self, *, max_wait_ms: int = 0, **fields: Any) -> FetchRequest:
        partition = {
            "partition": 0,
            "current_leader_epoch": self.leader_epoch,
            "fetch_offset": self.end_offset,
            "last_fetched_epoch": self.last_epoch,
            "log_start_offset": 0,
            "partition_max_bytes": 1 << 20,
            **fields,
        }
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=-1),
            max_wait_ms=max_wait_ms,
            min_bytes=0,
            topics=[FetchTopic(topic_id=METADATA_ID, partitions=[FetchPartition(**partition)])],
        )

    def fetch(self, **fields: Any) -> Any:
        """Send one fetch and return the partition's response."""
        answer = self.client.call(self.fetch_request(**fields))
        assert answer.error_code == 0
        return answer.responses[0].partitions[0]

    def take(self, partition: Any) -> None:
        for at, header in batches(partition.records):
            raw = bytes(partition.records[at : at + header.size_bytes])
            for record in records_of(raw, header):
                self.state.replay(LogRecord(record.key, record.value), record.offset)
            self.end_offset, self.last_epoch = header.next_offset, header.leader_epoch

    def catch_up(self) -> None:
        while True:
            partition = self.fetch()
            self.leader_epoch = partition.current_leader.leader_epoch
            if partition.error_code:
                continue
            if not partition.records:
                return
            self.take(partition)

    def join_again(self) -> None:
        """After fencing, fetch all metadata and send a heartbeat, which unfences the broker."""
        self.catch_up()
        assert not self.beat().is_fenced
        self.catch_up()

    def join(self) -> Broker:
        """Register, fetch all metadata, and become unfenced."""
        assert self.register().error_code == 0
        self.catch_up()
        assert not self.beat().is_fenced
        self.catch_up()
        return self
