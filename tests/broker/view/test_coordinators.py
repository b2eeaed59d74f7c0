"""Control API and console name the other brokers that coordinate groups and transactions, which this broker cannot describe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.view.coordinators import elsewhere, shard_of
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.java_hash import partition_for

OWN = 1


def state_with(*leaders: int, is_alone: bool = False) -> Any:
    partitions = [SimpleNamespace(leader=leader) for leader in leaders]
    topics = {OFFSETS_TOPIC: SimpleNamespace(partitions=partitions, partition_count=len(partitions))}
    return SimpleNamespace(topics=topics, is_alone=is_alone, node_id=OWN)


def ports_with(*leaders: int, log_end_offset: int = 1) -> Any:
    log = SimpleNamespace(log_start_offset=0, last_stable_offset=0, high_watermark=0, log_end_offset=log_end_offset, size_bytes=0)
    partitions = SimpleNamespace(known=lambda topic, index: SimpleNamespace(log=log))
    return SimpleNamespace(cluster=SimpleNamespace(state=state_with(*leaders)), partitions=partitions)


def test_console_names_each_other_broker_that_coordinates_groups_once() -> None:
    assert elsewhere(state_with(3, 1, 2, 3), OFFSETS_TOPIC, "groups") == [
        "groups of broker 2, which its own console shows",
        "groups of broker 3, which its own console shows",
    ]
    assert elsewhere(state_with(1, -1), OFFSETS_TOPIC, "groups") == ["groups without a coordinator at present"]
    assert elsewhere(state_with(1, 2, is_alone=True), OFFSETS_TOPIC, "groups") == []
    assert elsewhere(cast(Any, SimpleNamespace(topics={}, is_alone=False)), OFFSETS_TOPIC, "groups") == []


@pytest.mark.parametrize(
    ("leader", "code", "said"),
    [
        (2, Code.NOT_COORDINATOR, "broker 2 coordinates group 'g'"),
        (-1, Code.COORDINATOR_NOT_AVAILABLE, "has no coordinator at present"),
        (OWN, Code.COORDINATOR_LOAD_IN_PROGRESS, "is not loaded"),
    ],
)
def test_console_error_explains_why_a_group_has_no_coordinator_on_this_broker(leader: int, code: Code, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        shard_of(ports_with(leader), OFFSETS_TOPIC, [], "g", "group 'g'")
    assert refused.value.code is code


def test_console_does_not_wait_for_a_coordinator_whose_log_is_empty() -> None:
    """A new partition's shard is opened by the first request for it."""
    assert shard_of(ports_with(OWN, log_end_offset=0), OFFSETS_TOPIC, [], "g", "group 'g'") is None


def test_console_finds_the_coordinator_state_of_a_group_by_its_offsets_partition() -> None:
    shards = [SimpleNamespace(partition=index) for index in range(3)]
    found = shard_of(ports_with(1, 1, 1), OFFSETS_TOPIC, shards, "g", "group 'g'")
    assert found is shards[partition_for("g", 3)]
