"""A metadata change of thousands of partitions, as when a broker fails, is applied in steps, and other work runs between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from ottla.broker.metadata.local_partitions import OPEN_WORK, SETTLE_WORK, WORK_AT_ONCE
from ottla.broker.partitions.partitions import Partition
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import NO_LEADER, PartitionRegistration
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages import remove_topic_record
from ottla.protocol.steps import WORK_A_STEP
from ottla.simulation.broker import SimulatedBroker
from tests.broker.metadata.test_local_partitions import OFFSETS_ID, OTHER, OWN, TOPIC, TOPIC_ID, Recorded, change, changed, topic
from tests.broker.metadata.test_several_brokers import registration

MANY = 2_000
OTHER_ID = b"u" * 16


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    made = SimulatedBroker().start()
    change(made, registration(OWN), registration(OTHER))
    yield made
    made.close()
    assert made.bugs == 0


def with_many(broker: SimulatedBroker, leader: int = OTHER) -> None:
    change(broker, *topic(TOPIC, TOPIC_ID, *[leader] * MANY))
    broker.env.settle()
    assert len(list(broker.broker.partitions)) == MANY


def turns(broker: SimulatedBroker, calls: Recorded) -> list[list[tuple[Any, ...]]]:
    """Run the event loop until it is idle. Returns the recorded calls of each iteration."""
    done = []
    while broker.env.scheduler.soon:
        broker.env.scheduler.turn()
        done.append(calls.take())
    return done


@pytest.mark.smoke
def test_large_metadata_change_is_applied_in_steps(broker: SimulatedBroker) -> None:
    with_many(broker)
    calls = Recorded(broker)
    change(broker, *[changed(index, leader=OWN) for index in range(MANY)])
    at_once = calls.take()
    assert 0 < len(at_once) <= WORK_AT_ONCE // SETTLE_WORK + 1
    rest = turns(broker, calls)
    assert max(len(one) for one in rest) <= WORK_A_STEP // SETTLE_WORK + 1
    assert [*at_once, *chain.from_iterable(rest)] == [("lead", f"{TOPIC}-{index}", 4) for index in range(MANY)]
    assert all(partition.is_led for partition in broker.broker.partitions)


def test_metadata_change_opens_many_small_topics_in_steps(broker: SimulatedBroker) -> None:
    calls = Recorded(broker)
    change(broker, *[record for n in range(MANY) for record in topic(f"t{n}", n.to_bytes(16), OWN)])
    assert len(calls.take()) <= WORK_AT_ONCE // OPEN_WORK + 1
    last = broker.broker.partitions.get(f"t{MANY - 1}", 0)
    assert last.is_led, "a partition is opened at once when a client requests it"
    assert len(calls.take()) == 1
    assert max(len(one) for one in turns(broker, calls)) <= WORK_A_STEP // OPEN_WORK + 1
    assert len(list(broker.broker.partitions)) == MANY


@pytest.mark.smoke
def test_large_metadata_change_resigns_leaderships_first(broker: SimulatedBroker) -> None:
    with_many(broker)
    change(broker, *[changed(index, leader=OWN) for index in range(0, MANY, 2)])
    broker.env.settle()
    calls = Recorded(broker)
    change(broker, *[changed(index, leader=OTHER if index % 2 == 0 else OWN) for index in range(MANY)])
    kinds = [kind for kind, *_ in [*calls.take(), *chain.from_iterable(turns(broker, calls))]]
    assert kinds == ["follow"] * (MANY // 2) + ["lead"] * (MANY // 2)


def test_later_metadata_change_replaces_a_queued_change(broker: SimulatedBroker) -> None:
    with_many(broker)
    change(broker, *[changed(index, leader=OWN) for index in range(MANY)])
    calls = Recorded(broker)
    last = MANY - 1
    change(broker, changed(last, leader=OTHER))
    assert calls.take() == [("follow", f"{TOPIC}-{last}", OTHER)]
    led = [name for turn in turns(broker, calls) for kind, name, *_ in turn]
    assert f"{TOPIC}-{last}" not in led, "the replaced change was already queued"
    assert not broker.broker.partitions.replica(TOPIC, last).is_led


def test_topic_deleted_during_a_large_metadata_change_is_skipped(broker: SimulatedBroker) -> None:
    with_many(broker)
    change(broker, *[changed(index, leader=OWN) for index in range(MANY)])
    removed = remove_topic_record.RemoveTopicRecord(topic_id=TOPIC_ID)
    change(broker, metadata_record(remove_topic_record, removed), *topic(TOPIC, OTHER_ID, *[NO_LEADER] * 3))
    broker.env.settle()
    partitions = list(broker.broker.partitions)
    assert [partition.log.topic_id for partition in partitions] == [OTHER_ID] * 3
    assert not any(partition.is_led for partition in partitions)


def test_coordinators_are_elected_during_a_large_metadata_change(broker: SimulatedBroker) -> None:
    with_many(broker)
    change(broker, *topic(OFFSETS_TOPIC, OFFSETS_ID, OTHER, OWN))
    calls = Recorded(broker)
    moved = [changed(index, leader=OWN) for index in range(MANY)]
    change(broker, *moved, changed(0, OFFSETS_ID, leader=OWN), changed(1, OFFSETS_ID, leader=OTHER))
    done = [*calls.take(), *chain.from_iterable(turns(broker, calls))]
    assert [one for one in done if one[0] in ("elected", "resigned")] == [("resigned", 1), ("elected", 0, 4)]


@pytest.mark.full
def test_failure_of_one_partition_does_not_stop_a_large_metadata_change(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_many(broker)
    calls = Recorded(broker)
    lead, failing = calls.lead, {f"{TOPIC}-{MANY - 3}", f"{TOPIC}-{MANY - 2}"}

    def failing_lead(partition: Partition, registration: PartitionRegistration) -> None:
        if partition.log.name in failing:
            raise ValueError(partition.log.name)
        lead(partition, registration)

    monkeypatch.setattr(calls, "lead", failing_lead)
    change(broker, *[changed(index, leader=OWN) for index in range(MANY)])
    assert broker.broker.unexpected_errors == 0
    broker.env.settle()
    assert broker.broker.unexpected_errors == 1
    led = {partition.log.name for partition in broker.broker.partitions if partition.is_led}
    assert led == {f"{TOPIC}-{index}" for index in range(MANY)} - failing
    monkeypatch.setattr(calls, "lead", lead)
    change(broker, *[changed(index, isr=[OWN]) for index in range(MANY)])
    broker.env.settle()
    assert all(partition.is_led for partition in broker.broker.partitions), "the next change is applied completely"
    broker.broker.lifecycle.unexpected_errors = 0
