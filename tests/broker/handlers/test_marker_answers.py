"""Requests that wait for followers: no write is acknowledged that a change of the leader could lose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.handlers.delete_records import Deleting
from ottla.broker.handlers.support.produce_append import _AppendedBatch, _wait_for_replicas
from ottla.broker.handlers.write_txn_markers import write_markers
from ottla.broker.partitions.replication_wait import AppendedTo
from ottla.protocol.errors import Code
from ottla.protocol.messages.delete_records import DeleteRecordsPartitionResult
from ottla.protocol.messages.produce import PartitionProduceResponse
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.steps import run
from tests.broker.partition_world import FollowedPartitionWorld
from tests.support.handling import handled


class HandlerPortsWorld(FollowedPartitionWorld):
    """A partition with a follower, and the services (`Ports`) that request handlers need."""

    def __init__(self) -> None:
        super().__init__()
        self.ports = cast(Any, SimpleNamespace(partitions=self.partitions, groups=None, barrier=self.barrier, timers=self.env))


@pytest.mark.parametrize("is_regained", [False, True])
def test_transaction_marker_is_not_acknowledged_when_the_leader_changes_before_the_response(is_regained: bool) -> None:
    world = HandlerPortsWorld()
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, *range(1, 500)])]
    marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=3)
    steps = write_markers(world.ports, WriteTxnMarkersRequest([marker]))
    steps.send(None)
    assert world.partition.log.log_end_offset == 1, "the first step has written the marker"
    world.partition.follow(2, 1)
    if is_regained:
        # Records of the first epoch may have been truncated before the second epoch began.
        world.lead(2)
    response = cast(Any, run(steps))
    assert response.markers[0].topics[0].partitions[0].error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_produce_is_not_acknowledged_when_the_leader_changes_before_replication() -> None:
    world = HandlerPortsWorld()
    world.write()
    began = world.barrier.leaderships_lost
    world.partition.follow(2, 1)
    world.lead(2)
    result = PartitionProduceResponse(index=0, base_offset=0)
    batches = [_AppendedBatch(AppendedTo(world.partition, 1), result)]
    handled(_wait_for_replicas(cast(Any, world.ports), batches, began, timeout_ms=1_000))
    assert result.error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_delete_records_is_not_acknowledged_when_the_leader_changes_before_the_response() -> None:
    world = HandlerPortsWorld()
    deleting = Deleting.of(world.partition, 5, DeleteRecordsPartitionResult(partition_index=0, low_watermark=0))
    assert not deleting.is_over()
    world.partition.follow(2, 1)
    world.lead(2)
    assert deleting.is_over()
    assert deleting.result.error_code == Code.NOT_LEADER_OR_FOLLOWER
