"""The controller authorizes a forwarded request by the client's principal, not by that of the forwarding broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.simulation.client import Closed, SimulatedClient
from tests.broker.handlers.authorised_broker import AUTHORIZER, creation
from tests.broker.membership.member_world import Member, MemberWorld
from tests.security.acl.acls import acl


@pytest.fixture
def world() -> Iterator[MemberWorld]:
    made = MemberWorld(of_all={"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"})
    yield made
    made.close()
    assert made.bugs == 0


@pytest.fixture
def member(world: MemberWorld) -> Iterator[Member]:
    made = world.start(1)
    yield made
    world.stop(made)


@pytest.fixture
def alice(member: Member) -> Iterator[SimulatedClient]:
    with member.connect_as("alice") as client:
        yield client


def create(client: SimulatedClient, name: str) -> tuple[int, str | None]:
    asked = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    result = client.call(CreateTopicsRequest(topics=asked, timeout_ms=1_000)).topics[0]
    return result.error_code, result.error_message


def grant(member: Member, resource: str, operation: str) -> None:
    with member.connect() as admin:
        results = admin.call(CreateAclsRequest(creations=[creation(acl(resource, operation))])).results
    assert [result.error_code for result in results] == [Code.NONE]


def test_controller_checks_the_clients_permissions_for_a_forwarded_request(
    world: MemberWorld, member: Member, alice: SimulatedClient
) -> None:
    assert create(alice, "orders") == (Code.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    (denial,) = world.controller.authorizer.denials()
    assert (denial.principal, denial.operation, denial.resource) == ("User:alice", "CREATE", "orders")
    grant(member, "orders", "CREATE")
    assert create(alice, "orders")[0] == Code.NONE
    deleted = alice.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1_000)).responses[0]
    assert deleted.error_code == Code.TOPIC_AUTHORIZATION_FAILED


def test_broker_authorizes_by_acls_fetched_from_the_controller(world: MemberWorld, member: Member, alice: SimulatedClient) -> None:
    with member.connect() as admin:
        assert create(admin, "orders")[0] == Code.NONE
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(timestamp=-1)])]
    )
    world.sleep(1_000)
    assert alice.call(request).topics[0].partitions[0].error_code == Code.TOPIC_AUTHORIZATION_FAILED
    grant(member, "orders", "DESCRIBE")
    world.sleep(1_000)
    assert alice.call(request).topics[0].partitions[0].error_code == Code.NONE


def test_forwarded_request_that_cannot_be_read_closes_only_the_clients_connection(member: Member, alice: SimulatedClient) -> None:
    with pytest.raises(Closed):
        alice.call(CreateAclsRequest(creations=[creation(acl("orders", "READ"), operation=0)]))
    with member.connect() as admin:
        assert create(admin, "orders")[0] == Code.NONE
