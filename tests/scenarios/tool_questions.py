"""Questions of administrators' tools to a broker without security and without neighbours, for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.messages import add_raft_voter as adding
from ottla.protocol.messages import alter_partition_reassignments as reassigning
from ottla.protocol.messages import alter_replica_log_dirs as moving
from ottla.protocol.messages import create_acls, delete_acls
from ottla.protocol.messages import list_partition_reassignments as reassigned
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.primitives import NO_UUID
from tests.scenarios.setting import NO_SUCH_ID, NO_SUCH_NODE, TIMEOUT_MS, Questions, Setting

TOPIC_RESOURCE, LITERAL, ALLOW, READ = 2, 3, 3, 3
ANY = 1
EXACTLY, BY_DEFAULT, WHATEVER = range(3)
SHA_256, SHA_512 = 1, 2
PREFERRED, UNCLEAN = range(2)


def described_acls(setting: Setting, version: int) -> Questions:
    def ask(kind: int = ANY, pattern: int = ANY, operation: int = ANY, permission: int = ANY) -> DescribeAclsRequest:
        return DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=None,
            pattern_type_filter=pattern,
            principal_filter=None,
            host_filter=None,
            operation=operation,
            permission_type=permission,
        )

    yield "all", ask()
    yield "topics", ask(kind=TOPIC_RESOURCE, pattern=LITERAL, operation=READ, permission=ALLOW)


def created_acls(setting: Setting, version: int) -> Questions:
    def creation(kind: int = TOPIC_RESOURCE, name: str = "x", principal: str = "User:a") -> create_acls.AclCreation:
        return create_acls.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=LITERAL,
            principal=principal,
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )

    yield "none", create_acls.CreateAclsRequest([])
    yield "one", create_acls.CreateAclsRequest([creation()])
    yield "two", create_acls.CreateAclsRequest([creation(), creation(name="", principal="nobody")])


def deleted_acls(setting: Setting, version: int) -> Questions:
    one = delete_acls.DeleteAclsFilter(
        resource_type_filter=TOPIC_RESOURCE,
        resource_name_filter="x",
        pattern_type_filter=LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    yield "none", delete_acls.DeleteAclsRequest([])
    yield "one", delete_acls.DeleteAclsRequest([one])
    yield "two", delete_acls.DeleteAclsRequest([one, one])


def quorum(setting: Setting, version: int) -> Questions:
    def ask(**topics: list[int]) -> DescribeQuorumRequest:
        return DescribeQuorumRequest(
            [TopicData(topic_name=name, partitions=[PartitionData(index) for index in parts]) for name, parts in topics.items()]
        )

    yield "another topic", ask(other=[0])
    yield "another partition", ask(__cluster_metadata=[1])
    yield "none", ask()
    yield "no partitions", ask(__cluster_metadata=[])
    yield "two partitions", ask(__cluster_metadata=[0, 1])
    yield "a partition twice", ask(__cluster_metadata=[0, 0])


def elections(setting: Setting, version: int) -> Questions:
    def ask(kind: int, topics: dict[str, list[int]] | None) -> ElectLeadersRequest:
        named = None if topics is None else [TopicPartitions(topic=name, partitions=parts) for name, parts in topics.items()]
        return ElectLeadersRequest(election_type=kind if version else 0, topic_partitions=named, timeout_ms=TIMEOUT_MS)

    one, two = setting.name("one"), setting.name("two")
    # Not of all topics: other questions leave Apache Kafka with some that ottla refuses to make.
    for kind in (PREFERRED, UNCLEAN, 5, -1) if version else (PREFERRED,):
        yield f"a partition, type {kind}", ask(kind, {two: [0]})
        yield f"no topics, type {kind}", ask(kind, {})
        yield f"no partitions, type {kind}", ask(kind, {two: []})
        yield f"two topics, type {kind}", ask(kind, {two: [0, 1], one: [0]})
        yield f"no such partition, type {kind}", ask(kind, {two: [0, 7, -1]})
        yield f"no such topic, type {kind}", ask(kind, {setting.name("none"): [0]})
        yield f"a bad name, type {kind}", ask(kind, {"a b": [0], "": [0]})
        yield f"a partition twice, type {kind}", ask(kind, {two: [1, 1]})


def reassignments(setting: Setting, version: int) -> Questions:
    Parts = dict[int, list[int] | None]

    def ask(topics: dict[str, Parts], *, may_change: bool = True) -> reassigning.AlterPartitionReassignmentsRequest:
        named = [
            reassigning.ReassignableTopic(
                name=name,
                partitions=[reassigning.ReassignablePartition(partition_index=i, replicas=nodes) for i, nodes in parts.items()],
            )
            for name, parts in topics.items()
        ]
        return reassigning.AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, allow_replication_factor_change=may_change or version == 0, topics=named
        )

    two, node = setting.name("two"), setting.node_id
    for may_change in (True, False) if version else (True,):
        how = "" if may_change else ", factor kept"
        yield f"as it is{how}", ask({two: {0: [node]}}, may_change=may_change)
        yield f"cancelled{how}", ask({two: {0: None}}, may_change=may_change)
        yield f"to nobody{how}", ask({two: {0: []}}, may_change=may_change)
        yield f"to another{how}", ask({two: {0: [NO_SUCH_NODE]}}, may_change=may_change)
        yield f"to another below 0{how}", ask({two: {0: [-1]}}, may_change=may_change)
        yield f"to one twice{how}", ask({two: {0: [node, node]}}, may_change=may_change)
        yield f"to two{how}", ask({two: {0: [node, NO_SUCH_NODE]}}, may_change=may_change)
        yield f"two partitions{how}", ask({two: {0: [node], 1: None}}, may_change=may_change)
        yield f"no such partition{how}", ask({two: {7: [node], -1: None}}, may_change=may_change)
        yield f"no such topic{how}", ask({setting.name("none"): {0: [node]}, "a b": {0: None}}, may_change=may_change)
        yield f"no such topic, to another{how}", ask({setting.name("none"): {0: [77]}}, may_change=may_change)
        yield f"no partitions{how}", ask({two: {}}, may_change=may_change)
        yield f"no topics{how}", ask({}, may_change=may_change)
    topic = reassigning.ReassignableTopic(
        name=two, partitions=[reassigning.ReassignablePartition(partition_index=0, replicas=[node])] * 2
    )
    yield "a partition twice", reassigning.AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic])
    yield "a topic twice", reassigning.AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic, topic])


def listed_reassignments(setting: Setting, version: int) -> Questions:
    def ask(topics: dict[str, list[int]] | None) -> reassigned.ListPartitionReassignmentsRequest:
        named = None
        if topics is not None:
            named = [
                reassigned.ListPartitionReassignmentsTopics(name=name, partition_indexes=parts) for name, parts in topics.items()
            ]
        return reassigned.ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=named)

    yield "all", ask(None)
    yield "none", ask({})
    yield "a partition", ask({setting.name("two"): [0]})
    yield "no such partition", ask({setting.name("two"): [7, -1]})
    yield "no such topic", ask({setting.name("none"): [0], "a b": [0]})


def moved_logs(setting: Setting, version: int) -> Questions:
    path = setting.call(DescribeLogDirsRequest(topics=[]), 4).results[0].log_dir

    def ask(*dirs: tuple[str, dict[str, list[int]]]) -> moving.AlterReplicaLogDirsRequest:
        return moving.AlterReplicaLogDirsRequest(
            [
                moving.AlterReplicaLogDir(
                    path=where, topics=[moving.AlterReplicaLogDirTopic(name=name, partitions=p) for name, p in topics.items()]
                )
                for where, topics in dirs
            ]
        )

    full, two = setting.name("full"), setting.name("two")
    for label, where in (("its own", path), ("another", "/no/such/directory"), ("a relative", "data"), ("an empty", "")):
        yield f"{label} path", ask((where, {full: [0]}))
        yield f"{label} path, a partition without records", ask((where, {two: [1]}))
        yield f"{label} path, no such partition", ask((where, {full: [7]}))
        yield f"{label} path, a partition below 0", ask((where, {full: [-1]}))
        yield f"{label} path, no such topic", ask((where, {setting.name("none"): [0], "a b": [0]}))
        yield f"{label} path, no topics", ask((where, {}))
        yield f"{label} path, no partitions", ask((where, {full: []}))
    yield "none", ask()
    yield "two paths", ask((path, {full: [0]}), ("/no/such/directory", {two: [0]}))
    yield "a partition in two paths", ask((path, {full: [0]}), ("/no/such/directory", {full: [0]}))
    yield "a partition in two other paths", ask(("/no/such/directory", {full: [0]}), (path, {full: [0]}))


def created_tokens(setting: Setting, version: int) -> Questions:
    def ask(
        owner: tuple[str | None, str | None] = (None, None), renewers: tuple[tuple[str, str], ...] = (), lifetime_ms: int = -1
    ) -> CreateDelegationTokenRequest:
        kind, name = owner if version >= 3 else (None, None)
        return CreateDelegationTokenRequest(
            owner_principal_type=kind if version >= 3 else "",
            owner_principal_name=name if version >= 3 else "",
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=lifetime_ms,
        )

    yield "one", ask()
    yield "somebody's", ask(("User", "somebody"))
    yield "one with renewers", ask(renewers=(("User", "a"), ("Group", "b")))
    yield "a short one", ask(lifetime_ms=1)


def renewed_tokens(setting: Setting, version: int) -> Questions:
    yield "one", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
    yield "no name", RenewDelegationTokenRequest(hmac=b"", renew_period_ms=5)


def expired_tokens(setting: Setting, version: int) -> Questions:
    yield "one", ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
    yield "no name", ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=5)


def described_tokens(setting: Setting, version: int) -> Questions:
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="a")
    yield "all", DescribeDelegationTokenRequest(owners=None)
    yield "nobody's", DescribeDelegationTokenRequest(owners=[])
    yield "somebody's", DescribeDelegationTokenRequest(owners=[owner])


def unregistered(setting: Setting, version: int) -> Questions:
    for broker in (NO_SUCH_NODE, -1):
        yield f"broker {broker}", UnregisterBrokerRequest(broker_id=broker)


def added_voters(setting: Setting, version: int) -> Questions:
    def ask(
        cluster_id: str | None, voter: int, directory: bytes = NO_SUCH_ID, port: int = 9, listener: str = "CONTROLLER"
    ) -> adding.AddRaftVoterRequest:
        listeners = [adding.Listener(name=listener, host="127.0.0.1", port=port)] if listener else []
        return adding.AddRaftVoterRequest(
            cluster_id=cluster_id, timeout_ms=200, voter_id=voter, voter_directory_id=directory, listeners=listeners
        )

    yield "another cluster's", ask("no-such-cluster", 5)
    yield "this node", ask(None, setting.node_id)
    yield "this node, no directory", ask(None, setting.node_id, NO_UUID)
    yield "a node that nobody reaches", ask(None, NO_SUCH_NODE)
    yield "a node below 0", ask(None, -1)
    yield "no directory", ask(None, NO_SUCH_NODE, NO_UUID)
    yield "no listener", ask(None, NO_SUCH_NODE, listener="")
    yield "another listener", ask(None, NO_SUCH_NODE, listener="OTHER")


def removed_voters(setting: Setting, version: int) -> Questions:
    def ask(cluster_id: str | None, voter: int, directory: bytes = NO_SUCH_ID) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter, voter_directory_id=directory)

    yield "another cluster's", ask("no-such-cluster", 5)
    yield "nobody", ask(None, NO_SUCH_NODE)
    yield "nobody, no directory", ask(None, NO_SUCH_NODE, NO_UUID)
    yield "below 0", ask(None, -1)
    yield "this node, another directory", ask(None, setting.node_id)
    yield "this node, no directory", ask(None, setting.node_id, NO_UUID)


def shaken(setting: Setting, version: int) -> Questions:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "x"):
        yield f"mechanism {mechanism!r}", SaslHandshakeRequest(mechanism=mechanism)


def authenticated(setting: Setting, version: int) -> Questions:
    for sent in (b"\0user\0password", b""):
        yield f"{len(sent)} bytes", SaslAuthenticateRequest(auth_bytes=sent)


TOOL_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "DescribeAcls": described_acls,
    "CreateAcls": created_acls,
    "DeleteAcls": deleted_acls,
    "DescribeQuorum": quorum,
    "ElectLeaders": elections,
    "AlterPartitionReassignments": reassignments,
    "ListPartitionReassignments": listed_reassignments,
    "AlterReplicaLogDirs": moved_logs,
    "CreateDelegationToken": created_tokens,
    "RenewDelegationToken": renewed_tokens,
    "ExpireDelegationToken": expired_tokens,
    "DescribeDelegationToken": described_tokens,
    "UnregisterBroker": unregistered,
    "AddRaftVoter": added_voters,
    "RemoveRaftVoter": removed_voters,
    "SaslHandshake": shaken,
    "SaslAuthenticate": authenticated,
}
