"""A metadata delta lists every change once, and only for objects that still exist."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterState
from ottla.coordinator.metadata.metadata_delta import MetadataDelta
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.result import Result
from ottla.protocol.errors import DecodeError
from ottla.protocol.messages import (
    abort_transaction_record,
    begin_transaction_record,
    end_transaction_record,
    partition_change_record,
    register_broker_record,
)

A, B = b"a" * 16, b"b" * 16


@pytest.fixture
def state() -> ClusterState:
    """A cluster with the topic ``a``, which has two partitions. Its metadata delta is empty."""
    made = ClusterState(1)
    replay(made, made.create_topic("a", A, 2, {"retention.ms": "1"}))
    made.delta = MetadataDelta()
    return made


def replay(state: ClusterState, result: Result[Any]) -> None:
    for record in result.records:
        state.replay(record)


def change(index: int, topic_id: bytes = A) -> Result[None]:
    message = partition_change_record.PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=[1], leader=1)
    return Result(None, [metadata_record(partition_change_record, message)])


def noted(state: ClusterState) -> MetadataDelta:
    assert state.delta is not None
    return state.delta


def test_metadata_delta_is_empty_before_the_first_subscriber() -> None:
    state = ClusterState(1)
    replay(state, state.create_topic("a", A, 2, {}))
    assert state.delta is None


def test_metadata_delta_of_a_created_topic_lists_no_partitions(state: ClusterState) -> None:
    assert noted(state).is_empty
    replay(state, state.create_topic("b", B, 3, {"retention.ms": "1"}))
    replay(state, change(2, B))
    delta = noted(state)
    assert (list(delta.created), delta.partitions, delta.grown) == ([B], {}, {})
    assert delta.configs == {(TOPIC_RESOURCE, "b"): {"retention.ms"}}


def test_metadata_delta_separates_new_partitions_from_changed_partitions(state: ClusterState) -> None:
    replay(state, change(1))
    replay(state, change(1))
    assert ({k: list(v) for k, v in noted(state).partitions.items()}, noted(state).grown) == ({A: [1]}, {})
    replay(state, state.create_partitions("a", 5))
    assert ({k: list(v) for k, v in noted(state).partitions.items()}, list(noted(state).grown)) == ({A: [1, 2, 3, 4]}, [A])


def test_metadata_delta_lists_only_the_deletion_of_a_deleted_topic(state: ClusterState) -> None:
    replay(state, change(1))
    replay(state, state.create_partitions("a", 3))
    replay(state, state.delete_topic("a"))
    delta = noted(state)
    assert [(t.name, t.partition_count) for t in delta.deleted] == [("a", 3)]
    assert (delta.partitions, delta.grown, delta.created) == ({}, {}, {})


def test_recreated_topic_is_both_deleted_and_created_in_the_metadata_delta(state: ClusterState) -> None:
    replay(state, state.delete_topic("a"))
    replay(state, state.create_topic("a", B, 1, {}))
    assert ([t.topic_id for t in noted(state).deleted], list(noted(state).created)) == ([A], [B])


def test_metadata_delta_lists_changed_configs_features_and_brokers(state: ClusterState) -> None:
    replay(state, state.set_configs(BROKER_RESOURCE, "", {"max.connections": "7", "log.retention.ms": "1"}))
    replay(state, state.set_features({"group.version": 1}))
    assert (list(noted(state).configs), list(noted(state).features)) == ([(BROKER_RESOURCE, "")], ["group.version"])
    assert not noted(state).has_changed_brokers
    replay(state, Result(None, [metadata_record(register_broker_record, register_broker_record.RegisterBrokerRecord(broker_id=2))]))
    assert noted(state).has_changed_brokers


@pytest.mark.parametrize("ends", [True, False])
def test_metadata_transaction_enters_the_metadata_delta_when_it_ends(state: ClusterState, ends: bool) -> None:
    begin = metadata_record(begin_transaction_record, begin_transaction_record.BeginTransactionRecord())
    replay(state, Result(None, [begin]))
    replay(state, state.create_topic("b", B, 3, {}))
    assert noted(state).is_empty
    module: Any = end_transaction_record if ends else abort_transaction_record
    message = module.EndTransactionRecord() if ends else module.AbortTransactionRecord()
    replay(state, Result(None, [metadata_record(module, message)]))
    assert list(noted(state).created) == ([B] if ends else [])


def test_invalid_record_adds_no_deleted_topic_to_the_metadata_delta(state: ClusterState) -> None:
    with pytest.raises(DecodeError):
        replay(state, change(7))
    removed = state.delete_topic("a")
    replay(state, removed)
    with pytest.raises(DecodeError):
        replay(state, removed)
    assert len(noted(state).deleted) == 1
