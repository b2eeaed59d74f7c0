"""Members of share groups as clients: heartbeats, fetches, acknowledgements, and a producer for their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.protocol.messages.share_fetch import AcknowledgementBatch as PiggybackedBatch
from ottla.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.protocol.records import batches, build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS

GROUP_RESOURCE = 32
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Acknowledgements = Sequence[tuple[int, int, int]]
"""Batches of acknowledgements: first offset, last offset and acknowledge type."""


def set_group(client: SimulatedClient, group: str = "g", **configs: str) -> None:
    listed = [AlterableConfig(name=f"share.{name.replace('_', '.')}", config_operation=0, value=v) for name, v in configs.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=listed)
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


def produce(client: SimulatedClient, count: int, topic: str = "t", partition: int = 0, **batch: Any) -> int:
    """Produce `count` records in one batch, and return its base offset."""
    transactional_id = batch.pop("transactional_id", None)
    records = build_batch(((None, b"%d" % at) for at in range(count)), START_MS, **batch)
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(records))])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=data)
    answer = client.call(request, 12).responses[0].partition_responses[0]
    assert answer.error_code == 0, answer
    offset: int = answer.base_offset
    return offset


@dataclass
class Producer:
    """A transactional producer with one transactional id."""

    client: SimulatedClient
    transactional_id: str
    sequence: int = 0

    def __post_init__(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        self.answer = self.client.call(request, 5)

    def write(self, count: int) -> int:
        offset = produce(
            self.client,
            count,
            transactional_id=self.transactional_id,
            producer_id=self.answer.producer_id,
            producer_epoch=self.answer.producer_epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        self.sequence += count
        return offset

    def end(self, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.answer.producer_id,
            producer_epoch=self.answer.producer_epoch,
            committed=commit,
        )
        ended = self.client.call(request, 5)
        assert ended.error_code == 0
        self.answer.producer_id, self.answer.producer_epoch, self.sequence = ended.producer_id, ended.producer_epoch, 0


@dataclass
class Sharer:
    """A member of a share group with its own connection."""

    broker: SimulatedBroker
    member_id: str
    group_id: str = "g"
    topic: str = "t"
    partitions: Sequence[int] = (0,)
    epoch: int = 0
    session_epoch: int = 0
    client: SimulatedClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.broker.connect()

    @property
    def topic_id(self) -> bytes:
        return self.broker.broker.cluster.state.topics[self.topic].topic_id

    def beat(self, **fields: Any) -> ShareGroupHeartbeatResponse:
        if self.epoch == 0:
            fields = {"subscribed_topic_names": [self.topic], **fields}
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, **{"member_epoch": self.epoch, **fields}
        )
        answer: ShareGroupHeartbeatResponse = self.client.call(request)
        if answer.error_code == 0:
            self.epoch = max(answer.member_epoch, 0)
        return answer

    def joined(self) -> Sharer:
        self.beat()
        self.beat()
        return self

    def fetch_request(self, acknowledged: Acknowledgements = (), **fields: Any) -> ShareFetchRequest:
        said = [PiggybackedBatch(first_offset=f, last_offset=last, acknowledge_types=[t]) for f, last, t in acknowledged]
        asked = [FetchPartition(partition_index=p, acknowledgement_batches=said if not p else []) for p in self.partitions]
        is_named = self.session_epoch == 0 or acknowledged
        options: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [FetchTopic(topic_id=self.topic_id, partitions=asked)] if is_named else [],
        }
        return ShareFetchRequest(**{**options, **fields})

    def took(self, answer: ShareFetchResponse) -> ShareFetchResponse:
        if answer.error_code == 0:
            self.session_epoch += 1
        return answer

    def fetch(self, acknowledged: Acknowledgements = (), **fields: Any) -> ShareFetchResponse:
        return self.took(self.client.call(self.fetch_request(acknowledged, **fields)))

    def acquire(self, acknowledged: Acknowledgements = (), **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch, and return the acquired records of partition 0 as first offset, last offset and delivery count."""
        answer = self.fetch(acknowledged, **fields)
        assert answer.error_code == 0, answer.error_code
        return acquired(answer)

    def acknowledge(self, *acknowledged: tuple[int, int, int], **fields: Any) -> ShareAcknowledgeResponse:
        said = [AcknowledgementBatch(first_offset=f, last_offset=last, acknowledge_types=[t]) for f, last, t in acknowledged]
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=said)
        options: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch,
            "topics": [AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        }
        answer: ShareAcknowledgeResponse = self.client.call(ShareAcknowledgeRequest(**{**options, **fields}))
        if answer.error_code == 0:
            self.session_epoch += 1
        return answer

    def end(self) -> ShareFetchResponse:
        answer: ShareFetchResponse = self.client.call(self.fetch_request(share_session_epoch=-1, topics=[]))
        self.session_epoch = 0
        return answer


def partition_of(answer: ShareFetchResponse, partition: int = 0) -> PartitionData | None:
    for topic in answer.responses:
        for data in topic.partitions:
            if data.partition_index == partition:
                return data
    return None


def acquired(answer: ShareFetchResponse, partition: int = 0) -> list[tuple[int, int, int]]:
    data = partition_of(answer, partition)
    if data is None:
        return []
    assert data.error_code == 0
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in data.acquired_records]


def offsets_in(answer: ShareFetchResponse) -> list[tuple[int, int]]:
    """Return the first and last offset of each record batch in a ShareFetch response, acquired or not."""
    data = partition_of(answer)
    assert data is not None
    return [(header.base_offset, header.last_offset) for _, header in batches(data.records or b"")]
