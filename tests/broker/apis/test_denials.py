"""The authorizer records the newest denied requests, each with the ACL that decided."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import denials as limits
from ottla.broker.apis.api import RequestContext
from ottla.broker.apis.authorizer_port import ALLOW_ALL
from ottla.broker.handlers import describe_delegation_token
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.security.principal import KafkaPrincipal
from ottla.simulation.broker import SimulatedBroker
from tests.broker.handlers.authorised_broker import ANONYMOUS, authorised, grant, may, revoke_all
from tests.security.acl.acls import acl


def ask(broker: SimulatedBroker, *topics: str) -> None:
    asked = [ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition()]) for name in topics]
    with broker.connect() as client:
        client.call(ListOffsetsRequest(replica_id=-1, topics=asked))


def test_acl_denials_are_listed_newest_first_with_the_denying_rule() -> None:
    broker = authorised()
    grant(broker, may("TOPIC", "hid", "ALL", permission="DENY", pattern="PREFIXED"))
    ask(broker, "secret", "hidden")
    broker.sleep(1_000)
    ask(broker, "secret")
    newest, oldest = broker.broker.authorizer.denials()
    assert (newest.principal, newest.operation, newest.resource_type, newest.resource) == (ANONYMOUS, "DESCRIBE", "TOPIC", "secret")
    assert (newest.times, newest.denied_by) == (2, None)
    assert newest.last_ms - newest.first_ms >= 1_000
    assert (oldest.resource, oldest.denied_by) == ("hidden", "DENY User:ANONYMOUS ALL TOPIC hid*")
    broker.stop()


def test_number_and_length_of_recorded_acl_denials_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_DENIALS", 2)
    broker = authorised()
    ask(broker, "a", "b" * 300, "c")
    assert [denial.resource for denial in broker.broker.authorizer.denials()] == ["c", "b" * 249]
    broker.stop()


def test_broker_without_an_authorizer_records_no_acl_denials() -> None:
    assert ALLOW_ALL.denials() == ()


ALICE, BOB, CAROL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol"))


def denied(broker: SimulatedBroker) -> list[tuple[str, str]]:
    return [(denial.operation, denial.resource) for denial in broker.broker.authorizer.denials()]


def described_tokens(broker: SimulatedBroker, owner: KafkaPrincipal) -> list[str]:
    """Return the ids of an owner's delegation tokens that Alice may describe."""
    ports: Any = SimpleNamespace(authorizer=broker.broker.authorizer, cluster=broker.broker.cluster)
    owners = [DescribeDelegationTokenOwner(principal_type=owner.type, principal_name=owner.name)]
    context = RequestContext(version=3, client_id="c", client_host="10.0.0.1", connection_id=1, listener="IN", principal=ALICE)
    with pytest.raises(StopIteration) as ended:
        describe_delegation_token.handle(ports, DescribeDelegationTokenRequest(owners), context).send(None)
    return [token.token_id for token in ended.value.value.tokens]


def test_delegation_token_visible_by_one_of_two_permissions_is_not_recorded_as_denied() -> None:
    broker = authorised({"delegation.token.secret.key": "key"})
    token = broker.broker.cluster.create_token(CAROL, CAROL, [BOB], -1, broker.env.now_ms())
    assert described_tokens(broker, BOB) == [] == denied(broker), "the client did not name the owner of the token"
    grant(broker, acl("User:carol", "DESCRIBE_TOKENS", principal="User:alice", resource_type="USER"))
    assert described_tokens(broker, CAROL) == [token.token_id]
    assert denied(broker) == []
    revoke_all(broker)
    assert described_tokens(broker, CAROL) == []
    assert denied(broker) == [("DESCRIBE_TOKENS", "User:carol")]
    broker.stop()


def test_topics_hidden_in_share_group_responses_are_not_recorded_as_denials() -> None:
    broker = authorised()
    broker.with_coordinators()
    for name in ("open", "secret"):
        broker.broker.cluster.create_topic(name, 1, {})
    grant(broker, may("GROUP", "g", "ALL"), may("TOPIC", "open", "READ"), may("TOPIC", "secret", "READ"))
    topics = [
        AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0)])
        for name in ("open", "secret")
    ]
    with broker.connect() as client:
        assert client.call(AlterShareGroupOffsetsRequest(group_id="g", topics=topics)).error_code == Code.NONE
        revoke_all(broker)
        grant(broker, may("GROUP", "g", "ALL"), may("TOPIC", "open", "READ"))
        for named in (None, [DescribeShareGroupOffsetsRequestTopic(topic_name="secret", partitions=[0])]):
            assert denied(broker) == []
            asked = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=named)
            (group,) = client.call(DescribeShareGroupOffsetsRequest(groups=[asked])).groups
            assert [topic.topic_name for topic in group.topics] == (["open"] if named is None else ["secret"])
    assert denied(broker) == [("DESCRIBE", "secret")]
    broker.stop()
