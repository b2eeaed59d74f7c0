"""ACLs and users of SCRAM stay the same when Apache Kafka takes over a directory, and when ottla adopts it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.cli.directories import adopt, graduate
from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.broker.handlers.authorised_broker import creation
from tests.security.acl.acls import acl
from tests.support.raw_client import RawClient, create
from tools.kafka import ApacheKafka, Unavailable, jars

pytestmark = [pytest.mark.wire, pytest.mark.java]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
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


def security(bootstrap: str) -> tuple[list[Any], list[Any]]:
    """The ACLs and the users of SCRAM on a broker."""
    with RawClient(bootstrap) as client:
        described = client.call(EVERY_ACL)
        users = client.call(DescribeUserScramCredentialsRequest(users=None)).results
    shown = [
        (resource.resource_type, resource.resource_name, resource.pattern_type, *vars_of(one))
        for resource in described.resources
        for one in resource.acls
    ]
    return sorted(shown), sorted((user.user, [vars_of(info) for info in user.credential_infos]) for user in users)


def vars_of(struct: Any) -> tuple[Any, ...]:
    return tuple(getattr(struct, name) for name in struct.__struct_fields__)


def test_acls_and_scram_users_survive_handover_to_apache_kafka_and_adoption_by_ottla(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "ottla", settings=SETTINGS) as broker, RawClient(broker.bootstrap) as client:
        create(client, "orders")
        created = client.call(CreateAclsRequest(creations=[creation(one) for one in ACLS]))
        assert [result.error_code for result in created.results] == [0] * len(ACLS)
        user = ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4_096, salt=b"salt", salted_password=b"x" * 32)
        altered = client.call(AlterUserScramCredentialsRequest(upsertions=[user]))
        assert altered.results[0].error_code == 0
        before = security(broker.bootstrap)
    assert len(before[0]) == len(ACLS)
    assert [name for name, _ in before[1]] == ["alice"]
    assert graduate(str(tmp_path / "ottla"), str(tmp_path / "logs"), dry_run=False, in_place=False) == 0
    kafka = ApacheKafka(tmp_path / "kafka", settings=SETTINGS, log_dir=tmp_path / "logs")
    kafka.start()
    try:
        assert security(kafka.bootstrap) == before
    finally:
        kafka.stop()
    assert adopt(str(tmp_path / "logs"), str(tmp_path / "again"), []) == 0
    with Broker(data_dir=tmp_path / "again", settings=SETTINGS) as broker:
        assert security(broker.bootstrap) == before
