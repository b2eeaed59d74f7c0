"""Registration, heartbeats and sessions of brokers, fencing, and controlled shutdown."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.controller import heartbeats as beating
from ottla.coordinator.controller import registrations
from ottla.coordinator.controller.elections import change_of, change_record
from ottla.coordinator.controller.heartbeats import NEXT, Control, Heartbeats
from ottla.coordinator.metadata.broker_registration import ControllerRegistration
from ottla.coordinator.metadata.cluster import PRODUCER_ID_BLOCK
from ottla.coordinator.metadata.partition_registration import NO_LEADER
from ottla.protocol.errors import Code, KafkaError
from tests.coordinator.controller.world import ControllerWorld, directory


def test_broker_stays_fenced_until_it_has_read_its_own_registration() -> None:
    world = ControllerWorld()
    epoch = world.run(world.registered(1))
    assert epoch == 2, "the broker epoch is the offset after the two feature level records"
    assert world.state.registrations.record_offsets == {1: 2}
    early = world.beat(1, current_metadata_offset=1)
    assert (early.is_caught_up, early.is_fenced) == (False, True)
    assert world.beat(1, current_metadata_offset=2, want_fence=True).is_fenced
    reply = world.beat(1, current_metadata_offset=2)
    assert (reply.is_caught_up, reply.is_fenced, reply.should_shut_down) == (True, False, False)
    assert not world.state.registrations.brokers[1].is_fenced


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"cluster_id": "another"}, Code.INCONSISTENT_CLUSTER_ID),
        ({"incarnation_id": b"i" * 16}, Code.DUPLICATE_BROKER_REGISTRATION),
        ({"is_migrating_zk_broker": True}, Code.BROKER_ID_NOT_REGISTERED),
        ({"directories": ()}, Code.INVALID_REGISTRATION),
        ({"directories": (bytes(15) + b"\x63",)}, Code.INVALID_REGISTRATION),
        ({"directories": (directory(1), directory(1))}, Code.INVALID_REGISTRATION),
        ({"directories": (directory(2),)}, Code.INVALID_REGISTRATION),
        ({"features": {"metadata.version": (7, 32), "eligible.leader.replicas.version": (0, 1)}}, Code.UNSUPPORTED_VERSION),
        ({"features": {"eligible.leader.replicas.version": (0, 1)}}, Code.UNSUPPORTED_VERSION),
        ({"features": {"metadata.version": (7, 33)}}, Code.UNSUPPORTED_VERSION),
        ({"features": {"metadata.version": (7, 33), "eligible.leader.replicas.version": (2, 3)}}, Code.UNSUPPORTED_VERSION),
    ],
)
def test_invalid_broker_registrations_are_refused(changed: dict[str, Any], code: Code) -> None:
    world = ControllerWorld(2)
    with pytest.raises(KafkaError) as error:
        world.registered(1, **changed)
    assert error.value.code is code


def test_repeated_registration_of_a_broker_incarnation_keeps_its_broker_epoch() -> None:
    world = ControllerWorld(2)
    epoch = world.epoch(1)
    assert world.run(world.registered(1, rack="c")) == epoch
    broker = world.state.registrations.brokers[1]
    assert (broker.rack, broker.is_fenced) == ("c", False)
    assert world.state.registrations.record_offsets[1] == len(world.log) - 1
    world.beat(1)


def test_new_broker_incarnation_is_registered_after_the_previous_session_ends() -> None:
    world = ControllerWorld(2)
    world.incarnations[1] += 1
    world.now_ms += world.heartbeats.session_timeout_ms
    with pytest.raises(KafkaError, match="Another broker") as error:
        world.registered(1)
    assert error.value.code is Code.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += 1
    epoch = world.epoch(1)
    assert world.run(world.registered(1)) > epoch
    assert world.state.registrations.brokers[1].is_fenced
    with pytest.raises(KafkaError) as error:
        world.beat(1, broker_epoch=epoch)
    assert error.value.code is Code.STALE_BROKER_EPOCH


def test_broker_heartbeat_with_unknown_broker_or_epoch_gets_stale_broker_epoch() -> None:
    world = ControllerWorld(1)
    for changed in ({"broker_id": 9, "broker_epoch": 1}, {"broker_epoch": world.epoch(1) + 1}):
        with pytest.raises(KafkaError) as error:
            beating.heartbeat(
                world.state,
                world.heartbeats,
                beating.BrokerHeartbeat(**{"broker_id": 1, "current_metadata_offset": 0, **changed}),
                1,
            )
        assert error.value.code is Code.STALE_BROKER_EPOCH


def test_broker_is_fenced_and_loses_leadership_when_its_session_ends() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3), min_insync_replicas="2")
    deadline_ms = world.heartbeats.next_check_ms()
    assert deadline_ms is not None
    assert world.run(beating.fence_expired_broker(world.state, world.heartbeats, deadline_ms - 1)) is False
    world.expire(1)
    assert world.state.registrations.brokers[1].is_fenced
    partition = world.partition()
    assert (partition.leader, partition.isr, partition.leader_epoch, partition.elr) == (2, (2, 3), 1, ())
    world.expire(2)
    partition = world.partition()
    assert (partition.leader, partition.isr, partition.elr) == (3, (3,), (2,)), (
        "a replica removed below min.insync.replicas stays eligible"
    )
    assert world.heartbeats.next_check_ms() is not None


def test_new_active_controller_starts_a_session_for_every_unfenced_broker() -> None:
    world = ControllerWorld(2)
    world.expire(2)
    fresh = Heartbeats()
    fresh.start(world.state, 50_000)
    assert list(fresh.contacts_ms) == [(1, world.epoch(1))]
    assert fresh.has_session(world.state.registrations.brokers[1], 50_000 + fresh.session_timeout_ms)
    assert fresh.next_check_ms() == 50_001 + fresh.session_timeout_ms


def test_controlled_shutdown_waits_until_new_leaders_know_their_leadership() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    reply = world.beat(1, want_shut_down=True)
    assert (reply.is_in_controlled_shutdown, reply.should_shut_down, reply.is_fenced) == (True, False, False)
    assert world.state.registrations.brokers[1].is_in_controlled_shutdown
    assert world.partition().leader == 2 and world.partition().isr == (2, 3)
    assert world.beat(1, want_shut_down=True).should_shut_down is False, "the new leader has not read its leadership yet"
    world.beat(2)
    assert world.beat(1, want_shut_down=True).should_shut_down is False
    world.beat(3)
    assert world.beat(1, want_shut_down=True).should_shut_down is True
    assert world.state.registrations.brokers[1].is_fenced
    world.now_ms += world.heartbeats.session_timeout_ms + 1
    world.previous_epochs[1] = world.epoch(1)
    world.start(1)
    assert not world.state.registrations.brokers[1].is_in_controlled_shutdown


def test_last_in_sync_replica_keeps_leadership_without_eligible_leaders() -> None:
    world = ControllerWorld(2, has_elr=False)
    world.topic("t", (1,))
    assert world.beat(1, want_shut_down=True).is_in_controlled_shutdown
    assert world.partition().leader == NO_LEADER and world.partition().isr == (1,)
    world.beat(2)
    assert world.beat(1, want_shut_down=True).should_shut_down


@pytest.mark.parametrize(
    ("is_fenced", "wants", "expected"),
    [
        (True, {"want_shut_down": True}, Control.SHUTDOWN_NOW),
        (True, {"want_fence": True}, Control.FENCED),
        (False, {"want_fence": True}, Control.FENCED),
        (False, {"want_fence": True, "want_shut_down": True}, Control.SHUTDOWN_NOW),
        (False, {"want_shut_down": True}, Control.SHUTDOWN_NOW),
        (False, {}, Control.UNFENCED),
    ],
)
def test_heartbeat_decides_the_control_state_of_a_broker_without_leaderships(
    is_fenced: bool, wants: dict[str, bool], expected: Control
) -> None:
    world = ControllerWorld(1)
    if is_fenced:
        world.expire(1)
    asked = beating.BrokerHeartbeat(broker_id=1, broker_epoch=world.epoch(1), current_metadata_offset=99, **wants)
    assert world.heartbeats.next_control(world.state, asked, is_caught_up=True) is expected
    assert expected in NEXT[Control.FENCED if is_fenced else Control.UNFENCED]


def test_broker_loses_leadership_of_partitions_in_a_failed_log_directory() -> None:
    world = ControllerWorld(1)
    world.incarnations[2] = 1
    two = (directory(2, 1), directory(2, 2))
    world.run(world.registered(2, directories=two))
    world.beat(2)
    world.topic("t", (2, 1), (2, 1))
    assert world.partition().directories == (bytes(15) + b"\1", directory(1)), "the broker has not reported a directory yet"
    change = change_of(world.state, world.state.topics["t"], 0, directories={2: two[1]}).build()
    assert change is not None
    world.state.replay(change_record(world.state, change))
    world.log.append(change_record(world.state, change))
    world.beat(2, offline_directories=(two[1],))
    assert world.state.registrations.brokers[2].directories == two[:1]
    assert (world.partition("t", 0).leader, world.partition("t", 0).isr) == (1, (1,))
    assert (world.partition("t", 1).leader, world.partition("t", 1).isr) == (2, (2, 1))
    world.beat(2, cordoned_directories=two[:1])
    assert world.state.registrations.brokers[2].cordoned_directories == two[:1]


def test_unregistered_broker_leaves_the_in_sync_replicas() -> None:
    world = ControllerWorld(3)
    world.topic("t", (1, 2, 3))
    world.run(registrations.unregister_broker(world.state, 1))
    assert set(world.state.registrations.brokers) == {2, 3}
    assert world.partition().leader == 2 and world.partition().isr == (2, 3)
    assert not any(broker_id == 1 for broker_id, _ in world.heartbeats.contacts_ms)
    with pytest.raises(KafkaError) as error:
        registrations.unregister_broker(world.state, 1)
    assert error.value.code is Code.BROKER_ID_NOT_REGISTERED


def test_controller_registration_requires_a_metadata_version() -> None:
    world = ControllerWorld()
    registration = ControllerRegistration(
        controller_id=3, incarnation_id=directory(3), listeners=(), features={"kraft.version": (0, 1)}
    )
    world.run(registrations.register_controller(world.state, registration))
    assert world.state.registrations.controllers == {3: registration}
    world.run(world.state.set_features({"metadata.version": 14}))
    with pytest.raises(KafkaError) as error:
        registrations.register_controller(world.state, registration)
    assert error.value.code is Code.UNSUPPORTED_VERSION


def test_producer_id_blocks_are_allocated_only_to_registered_brokers() -> None:
    world = ControllerWorld(2)
    blocks = [
        world.run(registrations.allocate_producer_ids(world.state, broker_id, world.epoch(broker_id))) for broker_id in (1, 2, 1)
    ]
    assert [block.start for block in blocks] == [0, PRODUCER_ID_BLOCK, 2 * PRODUCER_ID_BLOCK]
    assert world.reloaded().next_producer_id == 3 * PRODUCER_ID_BLOCK
    for broker_id, epoch in ((1, world.epoch(1) - 1), (9, 0)):
        with pytest.raises(KafkaError) as error:
            registrations.allocate_producer_ids(world.state, broker_id, epoch)
        assert error.value.code is Code.STALE_BROKER_EPOCH
    world.state.next_producer_id = registrations.MAX_INT63 - 10
    with pytest.raises(KafkaError) as error:
        registrations.allocate_producer_ids(world.state, 1, world.epoch(1))
    assert error.value.code is Code.UNKNOWN_SERVER_ERROR
