"""ACLs, users of SCRAM, quotas and tokens stay the same when Apache Kafka takes over a directory and ottla adopts it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.directories import adopt, graduate
from ottla.client import KafkaClient
from ottla.client.admin.quotas import alter_quotas, list_quotas
from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.broker.handlers.authorised_broker import creation
from tests.security.acl.acls import acl
from tests.support.raw_client import RawClient, create
from tests.wire.tokens import brokers
from tests.wire.tokens.brokers import Addresses
from tests.wire.tokens.commands import Story
from tools.kafka import Unavailable, jars

pytestmark = [pytest.mark.wire, pytest.mark.java]

ACLS = (
    acl("orders", "READ"),
    acl("team-", "ALL", pattern="PREFIXED", principal="User:bob", permission="DENY", host="10.0.0.0/8"),
    acl("kafka-cluster", "ALTER", resource_type="CLUSTER", principal="User:*"),
)
EVERY_ACL = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


@pytest.fixture(scope="module", autouse=True)
def java() -> Iterator[None]:
    try:
        jars("all")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield


QUOTAS: tuple[tuple[dict[str, str | None], dict[str, float]], ...] = (
    ({"user": "alice", "client-id": "app"}, {"producer_byte_rate": 1_000.0, "request_percentage": 12.5}),
    ({"user": None}, {"consumer_byte_rate": 2_000.0}),
    ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
)


def security(bootstrap: str) -> tuple[list[Any], list[Any], list[Any]]:
    """The ACLs, the users of SCRAM, and the quotas of a broker."""
    with RawClient(bootstrap) as client:
        described = client.call(EVERY_ACL)
        users = client.call(DescribeUserScramCredentialsRequest(users=None)).results
    shown = [
        (resource.resource_type, resource.resource_name, resource.pattern_type, *vars_of(one))
        for resource in described.resources
        for one in resource.acls
    ]
    with KafkaClient(bootstrap, timeout_s=60) as cluster:
        quotas = [(quota.entity, quota.values) for quota in list_quotas(cluster.brokers, {})]
    return (
        sorted(shown),
        sorted((user.user, sorted(vars_of(info) for info in user.credential_infos)) for user in users),
        sorted(quotas, key=str),
    )


def vars_of(struct: Any) -> tuple[Any, ...]:
    return tuple(getattr(struct, name) for name in struct.__struct_fields__)


def prepare(addresses: Addresses) -> None:
    """Create a topic, ACLs, quotas and a user of SCRAM."""
    with RawClient(addresses.plain) as client:
        create(client, "orders")
        created = client.call(CreateAclsRequest(creations=[creation(one) for one in ACLS]))
        assert [result.error_code for result in created.results] == [0] * len(ACLS)
        user = ScramCredentialUpsertion(name="erin", mechanism=1, iterations=4_096, salt=b"salt", salted_password=b"x" * 32)
        altered = client.call(AlterUserScramCredentialsRequest(upsertions=[user]))
        assert altered.results[0].error_code == 0
    with KafkaClient(addresses.plain, timeout_s=60) as cluster:
        for entity, values in QUOTAS:
            alter_quotas(cluster.brokers, entity, values)


def test_security_metadata_survives_handover_to_apache_kafka_and_adoption_by_ottla(tmp_path: Path) -> None:
    with brokers.ottla(tmp_path / "ottla", has_key=True) as addresses:
        prepare(addresses)
        before = security(addresses.plain)
        first = Story(addresses)
        assert first.run("alice: create token=T renewers=User:bob").startswith("NONE owner=User:alice")
        token = first.found("T")
        first.close()
    assert len(before[0]) == len(ACLS)
    assert [name for name, _ in before[1]] == ["alice", "erin"]
    assert len(before[2]) == len(QUOTAS)

    def check(addresses: Addresses) -> None:
        assert security(addresses.plain) == before
        later = Story(addresses)
        later.adopt(first, "T")
        assert later.found("T") == token
        assert later.run("tokened: login token=T").startswith("NONE session=")
        assert later.run("tokened: metadata") == "answered=True"
        assert later.run("bob: renew token=T period=60000") == "NONE expires=~60000"
        later.run("bob: renew token=T period=86400000")
        token.expiry_timestamp = later.found("T").expiry_timestamp
        later.close()

    assert graduate(str(tmp_path / "ottla" / "data"), str(tmp_path / "logs"), dry_run=False, in_place=False) == 0
    with brokers.kafka(tmp_path / "kafka", has_key=True, log_dir=tmp_path / "logs") as addresses:
        check(addresses)
    (tmp_path / "again").mkdir()
    assert adopt(str(tmp_path / "logs"), str(tmp_path / "again" / "data"), []) == 0
    with brokers.ottla(tmp_path / "again", has_key=True) as addresses:
        check(addresses)
