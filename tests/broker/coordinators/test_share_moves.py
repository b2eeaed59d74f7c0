"""The leader of a share partition changes: behaviour of the old and the new leader, and records that members receive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.errors import Code
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient, newest
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.metadata.test_local_partitions import OTHER, OWN, change, changed
from tests.broker.metadata.test_several_brokers import registration
from tests.broker.share_world import ACCEPT, Sharer, partition_of, produce, set_group


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    """One broker of a cluster of two. It leads partition ``t-0`` and is the share coordinator."""
    made = SimulatedBroker().start().with_coordinators()
    with made.connect() as client:
        make_topic(client, "t", 1)
        set_group(client, auto_offset_reset="earliest")
    change(made, registration(OWN), registration(OTHER))
    yield made
    made.close()
    assert made.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> Iterator[SimulatedClient]:
    with broker.connect() as client:
        yield client


@pytest.fixture
def member(broker: SimulatedBroker) -> Sharer:
    return Sharer(broker, "a").joined()


def move(broker: SimulatedBroker, to: int) -> None:
    topic_id = broker.broker.cluster.state.topics["t"].topic_id
    change(broker, changed(0, topic_id, replicas=[OWN, OTHER], isr=[OWN, OTHER], leader=to))
    broker.env.settle()


def test_share_fetch_response_names_the_new_partition_leader(
    broker: SimulatedBroker, client: SimulatedClient, member: Sharer
) -> None:
    produce(client, 3)
    assert member.acquire(max_records=1, share_acquire_mode=1) == [(0, 0, 1)]
    move(broker, OTHER)
    answer = member.fetch()
    refused = partition_of(answer)
    assert refused is not None
    assert (refused.error_code, refused.acquired_records) == (Code.NOT_LEADER_OR_FOLLOWER, [])
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (OTHER, 1)
    assert [(one.node_id, one.host) for one in answer.node_endpoints] == [(OTHER, "host-2")]


def test_records_acquired_from_the_previous_leader_cannot_be_acknowledged(
    broker: SimulatedBroker, client: SimulatedClient, member: Sharer
) -> None:
    produce(client, 3)
    assert member.acquire() == [(0, 2, 1)]
    move(broker, OTHER)
    told = member.acknowledge((0, 2, ACCEPT))
    assert told.responses[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION, "SharePartitionManager returns this error"


def test_reelected_leader_loads_share_state_from_the_share_coordinator(
    broker: SimulatedBroker, client: SimulatedClient, member: Sharer
) -> None:
    produce(client, 3)
    assert member.acquire(max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
    member.acknowledge((0, 0, ACCEPT))
    move(broker, OTHER)
    move(broker, OWN)
    assert member.acquire() == [(1, 2, 1)], "only the previous leader knew that record 1 was acquired"


def test_parked_share_fetch_is_answered_when_the_leader_moves(broker: SimulatedBroker, member: Sharer) -> None:
    assert member.acquire() == []
    waiting = member.client.send(member.fetch_request(max_wait_ms=5_000), newest(member.fetch_request()))
    broker.sleep(100)
    move(broker, OTHER)
    began_ms = broker.env.steady_ms()
    answer = member.client.receive(waiting)
    refused = partition_of(answer)
    assert refused is not None
    assert (refused.error_code, refused.current_leader.leader_id) == (Code.NOT_LEADER_OR_FOLLOWER, OTHER)
    assert broker.env.steady_ms() - began_ms < 100
