"""Replay of metadata records as an Apache Kafka controller writes them: registrations, partition changes and transactions."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ottla.protocol.messages
from ottla.coordinator.metadata import cluster
from ottla.coordinator.metadata.broker_registration import BrokerRegistration, ControllerRegistration, ListenerEndpoint
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import SKIPPED, metadata_record, record_version
from ottla.coordinator.metadata.partition_registration import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    RECOVERING,
    PartitionRegistration,
    sole_replica,
)
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import (
    abort_transaction_record,
    begin_transaction_record,
    broker_registration_change_record,
    clear_elr_record,
    end_transaction_record,
    fence_broker_record,
    no_op_record,
    partition_change_record,
    partition_record,
    register_broker_record,
    register_controller_record,
    topic_record,
    unfence_broker_record,
    unregister_broker_record,
    unregister_controller_record,
)
from tests.coordinator.cluster.states import seen

TOPIC_ID = bytes(range(16))
DIRECTORIES = [bytes([n]) * 16 for n in range(1, 6)]


def replay(state: ClusterState, module: Any, message: Any, offset: int = 7) -> None:
    state.replay(metadata_record(module, message), offset)


def with_topic(partition: PartitionRegistration, name: str = "t", topic_id: bytes = TOPIC_ID) -> ClusterState:
    state = ClusterState(1)
    for record in state.create_topic(name, topic_id, 1, {}, [partition]).records:
        state.replay(record)
    return state


def change(state: ClusterState, **fields: Any) -> PartitionRegistration:
    message = partition_change_record.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)
    replay(state, partition_change_record, message)
    return state.topics["t"].partitions[0]


THREE = PartitionRegistration(
    replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=4, partition_epoch=9, directories=tuple(DIRECTORIES[:3])
)


def test_partition_change_without_leader_raises_only_the_partition_epoch() -> None:
    after = change(with_topic(THREE), isr=[1, 2])
    assert (after.isr, after.leader, after.leader_epoch, after.partition_epoch) == ((1, 2), 1, 4, 10)
    assert (after.replicas, after.directories) == (THREE.replicas, THREE.directories)


@pytest.mark.parametrize("leader", [1, 2, NO_LEADER])
def test_partition_change_with_the_same_leader_raises_the_leader_epoch(leader: int) -> None:
    after = change(with_topic(THREE), leader=leader)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (leader, 5, 10)


def test_partition_change_record_applies_every_field() -> None:
    state = with_topic(THREE)
    after = change(
        state,
        isr=[2],
        leader=2,
        replicas=[2, 4],
        removing_replicas=[1],
        adding_replicas=[4],
        leader_recovery_state=RECOVERING,
        directories=DIRECTORIES[3:],
        eligible_leader_replicas=[3],
        last_known_elr=[1],
    )
    assert after == PartitionRegistration(
        replicas=(2, 4),
        isr=(2,),
        leader=2,
        leader_epoch=5,
        partition_epoch=10,
        removing_replicas=(1,),
        adding_replicas=(4,),
        leader_recovery_state=RECOVERING,
        directories=tuple(DIRECTORIES[3:]),
        elr=(3,),
        last_known_elr=(1,),
    )
    assert change(state, removing_replicas=[], adding_replicas=[], leader_recovery_state=0).is_reassigning is False


def test_partition_record_has_one_directory_per_replica_or_none() -> None:
    state = with_topic(THREE)
    with pytest.raises(DecodeError, match="2 replicas, but 3 directories"):
        change(state, replicas=[1, 2])
    assert state.topics["t"].partitions == [THREE], "a refused record changes nothing"
    assert change(state, directories=[MIGRATING_DIRECTORY] * 3).directories == ()
    assert state.topics["t"].partitions[0].directory_of(2) == MIGRATING_DIRECTORY
    assert change(state, directories=[MIGRATING_DIRECTORY, LOST_DIRECTORY, DIRECTORIES[0]]).directory_of(3) == DIRECTORIES[0]


@pytest.mark.parametrize(("topic_id", "index"), [(TOPIC_ID, 1), (TOPIC_ID, -1), (bytes(16), 0)])
def test_partition_change_record_of_an_unknown_partition_raises(topic_id: bytes, index: int) -> None:
    state = with_topic(THREE)
    message = partition_change_record.PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=2)
    with pytest.raises(DecodeError):
        replay(state, partition_change_record, message)
    assert state.topics["t"].partitions == [THREE]


def test_clear_elr_record_applies_to_one_topic_or_to_all_topics() -> None:
    with_elr = PartitionRegistration(replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=3, elr=(2,))
    state = with_topic(with_elr)
    for record in state.create_topic("u", bytes(16), 2, {}, [with_elr, THREE]).records:
        state.replay(record)
    replay(state, clear_elr_record, clear_elr_record.ClearElrRecord(topic_name="t"))
    assert state.topics["t"].partitions[0].elr == () and state.topics["t"].partitions[0].partition_epoch == 4
    assert state.topics["u"].partitions == [with_elr, THREE]
    replay(state, clear_elr_record, clear_elr_record.ClearElrRecord(topic_name=""))
    assert [p.partition_epoch for p in state.topics["u"].partitions] == [4, 9]
    with pytest.raises(DecodeError):
        replay(state, clear_elr_record, clear_elr_record.ClearElrRecord(topic_name="ghost"))


def register(state: ClusterState, broker_id: int = 1, epoch: int = 20, offset: int = 20, **changed: Any) -> None:
    message = register_broker_record.RegisterBrokerRecord(
        **{
            "broker_id": broker_id,
            "incarnation_id": DIRECTORIES[0],
            "broker_epoch": epoch,
            "end_points": [register_broker_record.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
            "features": [
                register_broker_record.BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=33)
            ],
            "rack": "a",
            "fenced": True,
            "log_dirs": DIRECTORIES[1:3][::-1],
            "cordoned_log_dirs": [],
            **changed,
        }
    )
    replay(state, register_broker_record, message, offset)


def test_broker_registration_records_register_fence_and_unfence_a_broker() -> None:
    state = ClusterState(1)
    register(state)
    assert state.registrations.brokers[1] == BrokerRegistration(
        broker_id=1,
        broker_epoch=20,
        incarnation_id=DIRECTORIES[0],
        listeners=(ListenerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        features={"metadata.version": (7, 33)},
        rack="a",
        directories=tuple(DIRECTORIES[1:3]),
    )
    assert state.registrations.record_offsets == {1: 20}
    broker = state.registrations.brokers
    replay(state, unfence_broker_record, unfence_broker_record.UnfenceBrokerRecord(id=1, epoch=20))
    assert not broker[1].is_fenced and broker[1].is_active
    replay(state, fence_broker_record, fence_broker_record.FenceBrokerRecord(id=1, epoch=20))
    assert broker[1].is_fenced
    module = broker_registration_change_record
    replay(state, module, module.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=-1))
    assert not broker[1].is_fenced
    replay(state, module, module.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, in_controlled_shutdown=1))
    assert broker[1].is_in_controlled_shutdown and not broker[1].is_fenced and not broker[1].is_active
    replay(
        state,
        module,
        module.BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=20, fenced=1, log_dirs=[DIRECTORIES[4]], cordoned_log_dirs=[DIRECTORIES[4]]
        ),
    )
    assert broker[1].is_fenced and broker[1].is_in_controlled_shutdown
    assert broker[1].directories == broker[1].cordoned_directories == (DIRECTORIES[4],)
    replay(state, unregister_broker_record, unregister_broker_record.UnregisterBrokerRecord(broker_id=1, broker_epoch=20))
    assert not state.registrations.brokers and not state.registrations.record_offsets


@pytest.mark.parametrize("of_another", [{"id": 1, "epoch": 19}, {"id": 2, "epoch": 20}])
@pytest.mark.parametrize(
    "record",
    [
        lambda id, epoch: (fence_broker_record, fence_broker_record.FenceBrokerRecord(id=id, epoch=epoch)),
        lambda id, epoch: (unfence_broker_record, unfence_broker_record.UnfenceBrokerRecord(id=id, epoch=epoch)),
        lambda id, epoch: (
            unregister_broker_record,
            unregister_broker_record.UnregisterBrokerRecord(broker_id=id, broker_epoch=epoch),
        ),
        lambda id, epoch: (
            broker_registration_change_record,
            broker_registration_change_record.BrokerRegistrationChangeRecord(broker_id=id, broker_epoch=epoch, fenced=-1),
        ),
    ],
)
def test_registration_record_with_another_broker_epoch_changes_no_broker(
    record: Callable[..., tuple[Any, Any]], of_another: dict[str, int]
) -> None:
    state = ClusterState(1)
    register(state)
    before = seen(state)
    with pytest.raises(DecodeError, match="not registered"):
        replay(state, *record(**of_another))
    assert seen(state) == before


def test_controller_registration_records_add_and_remove_a_controller() -> None:
    state = ClusterState(1)
    message = register_controller_record.RegisterControllerRecord(
        controller_id=3, incarnation_id=DIRECTORIES[0], zk_migration_ready=False
    )
    replay(state, register_controller_record, message)
    assert state.registrations.controllers == {
        3: ControllerRegistration(controller_id=3, incarnation_id=DIRECTORIES[0], listeners=(), features={})
    }
    removal = unregister_controller_record.UnregisterControllerRecord(controller_id=3)
    replay(state, unregister_controller_record, removal)
    assert not state.registrations.controllers
    with pytest.raises(DecodeError):
        replay(state, unregister_controller_record, removal)


@pytest.mark.parametrize("metadata_version", [33, 30, 29, 23, 22, 17, 16, 7])
def test_metadata_snapshot_restores_cluster_state_at_each_metadata_version(metadata_version: int) -> None:
    state = with_topic(
        PartitionRegistration(
            replicas=(1, 2, 3),
            isr=(1,),
            removing_replicas=(2,),
            adding_replicas=(3,),
            leader=1,
            leader_recovery_state=RECOVERING,
            leader_epoch=2,
            partition_epoch=5,
            directories=tuple(DIRECTORIES[:3]) if metadata_version >= 17 else (),
            elr=(2,) if metadata_version >= 23 else (),
            last_known_elr=(3,) if metadata_version >= 23 else (),
        )
    )
    state.features["metadata.version"] = metadata_version
    cordoned = {"cordoned_log_dirs": [DIRECTORIES[1]]} if metadata_version >= 30 else {}
    register(state, log_dirs=DIRECTORIES[1:3] if metadata_version >= 17 else [], **cordoned)
    register(state, broker_id=2, epoch=30, fenced=False, in_controlled_shutdown=True, log_dirs=[], cordoned_log_dirs=None)
    replay(
        state,
        register_controller_record,
        register_controller_record.RegisterControllerRecord(controller_id=3, incarnation_id=TOPIC_ID, zk_migration_ready=False),
    )
    again = ClusterState(1)
    for record in state.snapshot():
        again.replay(record)
    assert seen(again) == seen(state)


def test_metadata_record_versions_equal_those_of_kafka() -> None:
    versions = {
        level: tuple(record_version(m, level) for m in (register_broker_record, partition_record, partition_change_record))
        for level in (7, 16, 17, 22, 23, 29, 30, 33)
    }
    assert versions == {
        7: (1, 0, 0),
        16: (1, 0, 0),
        17: (3, 1, 1),
        22: (3, 1, 1),
        23: (3, 2, 2),
        29: (3, 2, 2),
        30: (4, 2, 2),
        33: (4, 2, 2),
    }


def test_every_metadata_record_type_is_replayed_or_listed_as_ignored() -> None:
    folder = Path(ottla.protocol.messages.__file__).parent
    kinds = {
        module.RECORD_TYPE: path.stem
        for path in folder.glob("*_record.py")
        if hasattr(module := import_module(f"ottla.protocol.messages.{path.stem}"), "RECORD_TYPE")
    }
    assert {kind: kinds[kind] for kind in SKIPPED} == SKIPPED
    assert {kind: kinds[kind] for kind in cluster._RARE} == {kind: name for kind, (name, _) in cluster._RARE.items()}
    assert set(kinds) == set(cluster._REPLAY) | set(cluster._RARE) | set(SKIPPED)
    assert not (set(cluster._REPLAY) | set(cluster._RARE)) & set(SKIPPED)
    state = ClusterState(1)
    replay(state, no_op_record, no_op_record.NoOpRecord())
    assert seen(state) == seen(ClusterState(1))
    with pytest.raises(DecodeError, match="type 99"):
        state.replay(metadata_record(type("Unknown", (), {"RECORD_TYPE": 99, "MAX_VERSION": 0, "encode": lambda *_: None}), None))


def begin(state: ClusterState) -> None:
    replay(state, begin_transaction_record, begin_transaction_record.BeginTransactionRecord())


def test_metadata_transaction_is_applied_when_it_ends() -> None:
    state, offset = ClusterState(1), 40
    begin(state)
    for record in ClusterState(1).create_topic("t", TOPIC_ID, 3, {"retention.ms": "1"}).records:
        state.replay(record, offset)
    register(state, offset=41)
    assert seen(state) == seen(ClusterState(1))
    replay(state, end_transaction_record, end_transaction_record.EndTransactionRecord())
    assert state.topics["t"].partitions == [sole_replica(1)] * 3
    assert state.configs == {(2, "t"): {"retention.ms": "1"}}
    assert state.registrations.record_offsets == {1: 41}
    # Records after the transaction are applied immediately.
    for record in state.create_partitions("t", 4).records:
        state.replay(record)
    assert state.topics["t"].partition_count == 4


def test_aborted_metadata_transaction_changes_nothing() -> None:
    state = with_topic(THREE)
    before = seen(state)
    begin(state)
    replay(state, topic_record, topic_record.TopicRecord(name="u", topic_id=bytes(16)))
    for record in state.create_partitions("t", 2).records:
        state.replay(record)
    replay(state, abort_transaction_record, abort_transaction_record.AbortTransactionRecord())
    assert seen(state) == before
    for ending in (end_transaction_record, abort_transaction_record):
        with pytest.raises(DecodeError, match="not begun"):
            replay(state, ending, (getattr(ending, "EndTransactionRecord", None) or ending.AbortTransactionRecord)())


def test_invalid_record_does_not_stop_the_rest_of_its_metadata_transaction() -> None:
    state = with_topic(THREE)
    begin(state)
    replay(state, clear_elr_record, clear_elr_record.ClearElrRecord(topic_name="ghost"))
    replay(state, topic_record, topic_record.TopicRecord(name="u", topic_id=bytes(16)))
    with pytest.raises(DecodeError, match="ghost"):
        replay(state, end_transaction_record, end_transaction_record.EndTransactionRecord())
    assert set(state.topics) == {"t", "u"}


def test_single_broker_start_does_not_import_cluster_record_modules() -> None:
    """Importing a generated module takes a noticeable fraction of a millisecond when a broker starts."""
    program = (
        "import sys; from ottla.coordinator.metadata.cluster import ClusterState, _RARE;"
        "ClusterState(1).create_topic('t', bytes(16), 1, {});"
        "print(*[name for name, _ in _RARE.values() if 'ottla.protocol.messages.' + name in sys.modules])"
    )
    imported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert imported.split() == []


def test_equal_partition_records_of_other_topics_are_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ClusterState(1)
    records = [state.create_topic(n, n.encode() * 16, 2, {}).records for n in "abc"]
    for record in records[0]:
        state.replay(record)
    monkeypatch.setattr(partition_record, "decode", None)
    for record in records[1] + records[2]:
        state.replay(record)
    assert [t.partitions for t in state.topics.values()] == [[sole_replica(1)] * 2] * 3
    with pytest.raises(DecodeError):
        state.replay(ClusterState(1).create_topic("ghost", b"g" * 16, 1, {}).records[1])


def test_equal_partition_registrations_share_one_python_object() -> None:
    """Equal partition registrations are shared, so each of 10,000 partitions on one broker takes only a pointer."""
    state = ClusterState(1)
    for name in ("t", "u"):
        for record in state.create_topic(name, name.encode() * 16, 5_000, {}).records:
            state.replay(record)
    gc.collect()
    partitions = state.topics["t"].partitions
    assert len({id(p) for topic in state.topics.values() for p in topic.partitions}) == 1
    assert sys.getsizeof(partitions) < 9 * 5_000
    # Registrations are also shared if partitions alternate between two leaders.
    other = sole_replica(2)
    alternating = state.create_topic("v", b"v" * 16, 100, {}, [sole_replica(1), other] * 50).records
    for record in alternating:
        state.replay(record)
    assert len({id(p) for p in state.topics["v"].partitions}) == 2
