"""The controller applies mutation quotas by the client's own user and client id, and brokers mute their clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.network.pause_reasons import Hold
from ottla.protocol.errors import Code
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.simulation.client import SimulatedClient
from tests.broker.membership.member_world import Member, MemberWorld


@pytest.fixture
def world() -> Iterator[MemberWorld]:
    made = MemberWorld()
    yield made
    made.close()
    assert made.bugs == 0


@pytest.fixture
def member(world: MemberWorld) -> Iterator[Member]:
    made = world.start(1)
    yield made
    world.stop(made)


def set_quota(member: Member, user: str, key: str, value: float) -> None:
    entity = [altering.EntityData(entity_type="user", entity_name=user)]
    entry = altering.EntryData(entity=entity, ops=[altering.OpData(key=key, value=value, remove=False)])
    with member.connect() as admin:
        answer = admin.call(altering.AlterClientQuotasRequest(entries=[entry], validate_only=False))
        assert answer.entries[0].error_code == Code.NONE


def create(client: SimulatedClient, name: str, partitions: int, version: int = 7) -> tuple[int, int]:
    asked = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]
    answer = client.call(CreateTopicsRequest(topics=asked, timeout_ms=1_000), version)
    return answer.topics[0].error_code, answer.throttle_time_ms


def is_muted(client: SimulatedClient) -> bool:
    return bool(client._connection._holds & Hold.THROTTLED)


def test_forwarded_request_uses_the_clients_quota_and_the_broker_mutes_the_client(member: Member) -> None:
    set_quota(member, "alice", "controller_mutation_rate", 1)
    with member.connect_as("alice") as alice, member.connect_as("bob") as bob:
        assert create(alice, "a", 20) == (Code.NONE, 0)
        code, wait_ms = create(alice, "b", 1)
        assert code == Code.THROTTLING_QUOTA_EXCEEDED and 8_000 < wait_ms <= 9_000
        assert is_muted(alice)
        assert create(bob, "b", 50) == (Code.NONE, 0)
        # The client is muted until the controller's throttle time has passed.
        assert create(alice, "c", 1)[0] == Code.NONE
    with member.connect_as("alice") as alice:
        code, wait_ms = create(alice, "d", 50, version=5)
        assert code == Code.NONE and wait_ms > 40_000 and is_muted(alice)


def test_requests_of_brokers_are_not_throttled(world: MemberWorld, member: Member) -> None:
    set_quota(member, "ANONYMOUS", "request_percentage", 0.000001)
    set_quota(member, "ANONYMOUS", "consumer_byte_rate", 1)
    world.env.advance(30_000)
    assert not world.controller.cluster.state.registrations.brokers[1].is_fenced
    with member.connect_as("alice") as alice:
        assert create(alice, "a", 1) == (Code.NONE, 0)
