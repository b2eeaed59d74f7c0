"""``controller_mutation_rate`` counts each change once, even if the change is computed several times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.coordinator.metadata.cluster import TOPIC_RESOURCE
from ottla.coordinator.quota.mutation_quota import MutationQuota
from ottla.protocol.errors import Code
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

LARGE = 200
"""A number of partitions so large that a worker thread places their replicas."""


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start()
    simulated.broker.cluster.create_topic("t", 1, {})
    op = altering.OpData(key="controller_mutation_rate", value=1.0, remove=False)
    entry = altering.EntryData(entity=[altering.EntityData(entity_type="client-id", entity_name="a")], ops=[op])
    answer = SimulatedClient(simulated, "admin").call(altering.AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert answer.entries[0].error_code == 0
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the counts that the quota records. Fails if another thread than the event loop's records a count."""
    counts: list[int] = []
    original = MutationQuota.record

    def record(self: MutationQuota, partition_count: int, now_ms: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        counts.append(partition_count)
        original(self, partition_count, now_ms)

    monkeypatch.setattr(MutationQuota, "record", record)
    return counts


def grow_the_log(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Append to the metadata log during the first ``times`` replica placements. Returns the partition count of each placement."""
    placement, placed = broker.broker.placement, []
    original: Callable[..., Any] = placement.placed

    def growing(count: int, factor: int) -> Any:
        placed.append(count)
        if len(placed) <= times:
            broker.broker.cluster.set_configs(TOPIC_RESOURCE, "t", {"retention.ms": str(len(placed))})
        return original(count, factor)

    monkeypatch.setattr(placement, "placed", growing)
    return placed


def new_topic(name: str, partitions: int, *, validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=validate_only)


@pytest.mark.parametrize("growths", [0, 1, 3])
def test_creation_of_a_large_topic_uses_the_mutation_quota_once(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, recorded: list[int], growths: int
) -> None:
    placed = grow_the_log(broker, monkeypatch, growths)
    answer = SimulatedClient(broker, "a").call(new_topic("x", LARGE), 6)
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)
    assert placed == [LARGE] * (growths + 1) and recorded == [LARGE]


@pytest.mark.parametrize("growths", [0, 1, 3])
def test_creation_of_many_partitions_uses_the_mutation_quota_once(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch, recorded: list[int], growths: int
) -> None:
    placed = grow_the_log(broker, monkeypatch, growths)
    topic = CreatePartitionsTopic(name="t", count=LARGE + 1, assignments=None)
    answer = SimulatedClient(broker, "a").call(CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False), 2)
    # The token bucket has 11 tokens.
    assert (answer.results[0].error_code, answer.throttle_time_ms) == (0, (LARGE - 11) * 1_000)
    assert placed == [LARGE] * (growths + 1) and recorded == [LARGE]


def test_large_topic_refused_by_the_mutation_quota_is_not_created(broker: SimulatedBroker) -> None:
    client = SimulatedClient(broker, "a")
    assert client.call(new_topic("x", 20, validate_only=True), 6).topics[0].error_code == 0
    assert client.call(new_topic("y", LARGE), 6).topics[0].error_code == Code.THROTTLING_QUOTA_EXCEEDED
    assert set(broker.broker.cluster_state.topics) == {"t"}


def test_invalid_topic_names_in_metadata_requests_use_no_mutation_quota(broker: SimulatedBroker, recorded: list[int]) -> None:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name="a b")], allow_auto_topic_creation=True)
    assert SimulatedClient(broker, "a").call(wanted, 9).topics[0].error_code == Code.INVALID_TOPIC_EXCEPTION
    assert recorded == []
