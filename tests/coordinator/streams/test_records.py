"""Encoding and decoding of streams group records, including records without assignment epochs."""

from __future__ import annotations

from ottla.coordinator.group.modern.records import read_target_epoch
from ottla.coordinator.group.streams import records
from ottla.coordinator.group.streams.member import StreamsGroupMember, StreamsMemberState
from ottla.coordinator.group.streams.records import GroupMetadata
from ottla.coordinator.group.streams.tasks import AssignedTasks, Tasks
from ottla.coordinator.group.streams.topology import topology_from_heartbeat
from ottla.coordinator.result import LogRecord
from ottla.protocol.codec import encode_record
from ottla.protocol.messages import streams_group_current_member_assignment_value as current_value
from tests.coordinator.streams.world import STATEFUL

MEMBER = StreamsGroupMember(
    member_id="m",
    member_epoch=3,
    previous_epoch=2,
    state=StreamsMemberState.UNREVOKED_TASKS,
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=5,
    topology_epoch=1,
    process_id="p",
    user_endpoint=("host", 9),
    client_tags={"zone": "a"},
    assigned=AssignedTasks({"0": {0: 3, 1: 2}}, {"0": frozenset({2})}, {"1": frozenset({0})}),
    revoking=AssignedTasks({"0": {3: 1}}, {}, {"1": frozenset({1})}),
)


def kind_of(record: LogRecord) -> int:
    assert record.key is not None
    return int.from_bytes(record.key[:2], "big")


def value_of(record: LogRecord) -> bytes:
    assert record.value is not None
    return record.value


def test_streams_group_member_records_round_trip() -> None:
    first, second = records.member_record("g", MEMBER), records.current_record("g", MEMBER)
    assert (kind_of(first), kind_of(second)) == (19, 22)
    assert StreamsGroupMember("m", **records.read_member(value_of(first)), **records.read_current(value_of(second))) == MEMBER
    key = records.RECORDS.read_key(19, first.key or b"")
    assert (key.group_id, key.member_id) == ("g", "m")


def test_streams_group_target_assignment_records_round_trip() -> None:
    target = Tasks({"0": frozenset({1, 0})}, {"1": frozenset({2})}, {})
    record = records.target_record("g", "m", target)
    assert kind_of(record) == 21
    assert records.read_target(value_of(record)) == target
    target_metadata = records.RECORDS.target_epoch_record("g", 4, 99)
    assert kind_of(target_metadata) == 20
    assert read_target_epoch(value_of(target_metadata)) == (4, 99)


def test_streams_group_metadata_and_topology_records_round_trip() -> None:
    metadata = GroupMetadata(4, -5, 1, {"num.standby.replicas": "1"}, 1, -1)
    record = records.metadata_record("g", metadata)
    assert kind_of(record) == 17
    assert records.read_metadata(value_of(record)) == metadata
    topology = topology_from_heartbeat(STATEFUL)
    topology_record = records.topology_record("g", topology)
    assert kind_of(topology_record) == 23
    assert records.read_topology(value_of(topology_record)) == topology


def test_streams_member_record_without_assignment_epochs_is_read() -> None:
    tasks = [current_value.TaskIds(subtopology_id="0", partitions=[1, 2])]
    value = current_value.StreamsGroupCurrentMemberAssignmentValue(member_epoch=7, state=1, active_tasks=tasks)
    assert records.read_current(encode_record(current_value, value, 0))["assigned"].active == {"0": {1: 7, 2: 7}}


def test_streams_group_tombstones_cover_every_record_type() -> None:
    kinds = [kind_of(record) for record in records.group_tombstones("g", ["m"])]
    assert kinds == [22, 21, 20, 19, 17, 23]
    assert [kind_of(record) for record in records.RECORDS.member_tombstones("g", "m")] == [22, 21, 19]
