"""Questions about groups and their offsets, for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.primitives import NO_UUID
from tests.scenarios.setting import NO_SUCH_ID, Questions, Setting

CONSUMER = "consumer"
SESSION_MS = 60_000
MEMBER_ID_REQUIRED = 79
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = range(3)


def subscription(*topics: str) -> bytes:
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join_request(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    kind: str = CONSUMER,
    protocols: tuple[str, ...] = ("range",),
    metadata: bytes = b"",
    session_ms: int = SESSION_MS,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
    )


def sync_request(group: str, generation: int, member: str, **given: Any) -> SyncGroupRequest:
    known: dict[str, Any] = {"protocol_type": CONSUMER, "protocol_name": "range", "assignments": [], **given}
    return SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, **known)


def joined(setting: Setting, group: str, **given: Any) -> str:
    """A member that has joined alone; its group completes a rebalance."""
    answer = setting.call(join_request(group, **given), 5)
    if answer.error_code == MEMBER_ID_REQUIRED:
        answer = setting.call(join_request(group, answer.member_id, **given), 5)
    assert answer.error_code == 0, answer
    return str(answer.member_id)


def stable(setting: Setting, group: str, **given: Any) -> str:
    """A member of a group that is stable at generation 1."""
    member = joined(setting, group, **given)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"as")],
    )
    assert setting.call(request, 3).error_code == 0
    return member


def left(setting: Setting, group: str, member: str) -> None:
    assert setting.call(LeaveGroupRequest(group_id=group, member_id=member), 1).error_code == 0


def commit_request(
    setting: Setting, version: int, group: str, generation: int = -1, member: str = "", *, topic: str = "", **given: Any
) -> OffsetCommitRequest:
    name = topic or setting.name("one")
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=5, committed_leader_epoch=-1, committed_metadata=given.get("metadata", "m")
        )
        for index in given.get("indexes", (0,))
    ]
    topic_id = setting.ids.get(name, NO_SUCH_ID) if version >= 10 else NO_UUID
    topics = [OffsetCommitRequestTopic(name=name if version < 10 else "", topic_id=topic_id, partitions=partitions)]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=given.get("instance"),
        retention_time_ms=given.get("retention_ms", -1),
        topics=topics,
    )


def committed(setting: Setting, group: str, topic: str = "") -> None:
    answer = setting.call(commit_request(setting, 8, group, topic=topic), 8)
    assert answer.topics[0].partitions[0].error_code == 0, answer


def pending(setting: Setting, group: str, transactional_id: str, *, commit: bool | None) -> None:
    """An offset in a transaction, which is then ended or left open."""
    producer_id, epoch = setting.init(transactional_id)
    assert (
        setting.call(
            AddOffsetsToTxnRequest(
                transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group
            ),
            3,
        ).error_code
        == 0
    )
    topics = [
        TxnOffsetCommitRequestTopic(
            name=setting.name("one"),
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=0, committed_offset=5, committed_leader_epoch=-1, committed_metadata="m"
                )
            ],
        )
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id, group_id=group, producer_id=producer_id, producer_epoch=epoch, topics=topics
    )
    answer = setting.call(request, 3)
    assert answer.topics[0].partitions[0].error_code == 0, answer
    if commit is not None:
        assert (
            setting.call(
                EndTxnRequest(transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit), 3
            ).error_code
            == 0
        )


def finding(setting: Setting, version: int) -> Questions:
    for kind in (GROUP_KEY, TRANSACTION_KEY, SHARE_KEY, 3, -1):
        for key in ("k", "", "a:b:0"):
            yield f"key {key!r} of type {kind}", FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    if version >= 4:
        yield "many keys", FindCoordinatorRequest(key="", key_type=GROUP_KEY, coordinator_keys=["x", "y", "x", ""])
        yield "no keys", FindCoordinatorRequest(key="", key_type=GROUP_KEY, coordinator_keys=[])


def joining(setting: Setting, version: int) -> Questions:
    group = setting.name(f"join-{version}")
    yield "no group", join_request("")
    yield "no such member", join_request(group, "nobody")
    for session_ms in (-1, 0, 100, 5_999, 1_800_001):
        yield f"a session of {session_ms} ms", join_request(group, session_ms=session_ms)
    yield "no protocols", join_request(group, protocols=())
    yield "no protocol type", join_request(group, kind="")
    yield "a new member", join_request(group)
    member = joined(setting, setting.name(f"in-{version}"))
    there = setting.name(f"in-{version}")
    yield "again", join_request(there, member)
    yield "another type", join_request(there, member, kind="connect")
    yield "another protocol", join_request(there, member, protocols=("sticky",))
    yield "a second of another protocol", join_request(there, protocols=("sticky",))
    yield "an unknown member of a group", join_request(there, "nobody")
    if version >= 5:
        static = setting.name(f"static-{version}")
        yield "a static member", join_request(static, instance="i")
        yield "no such instance", join_request(static, "nobody", instance="j")
        yield "fenced", join_request(static, "nobody", instance="i")
        yield "in its predecessor's place", join_request(static, instance="i")
        yield "an empty instance", join_request(setting.name(f"unnamed-{version}"), instance="")
    settled = setting.name(f"settled-{version}")
    member = stable(setting, settled)
    yield "the leader of a stable group", join_request(settled, member)


def syncing(setting: Setting, version: int) -> Questions:
    group = setting.name(f"sync-{version}")
    member = joined(setting, group)
    yield "no group", sync_request("", 1, member)
    yield "no such group", sync_request(setting.name("nobody"), 1, member)
    yield "no such member", sync_request(group, 1, "nobody")
    yield "no member", sync_request(group, 1, "")
    for generation in (0, 2, -1):
        yield f"generation {generation}", sync_request(group, generation, member)
    if version >= 3:
        yield "no such instance", sync_request(group, 1, member, group_instance_id="i")
    if version >= 5:
        yield "no type", sync_request(group, 1, member, protocol_type=None)
        yield "no protocol", sync_request(group, 1, member, protocol_name=None)
        yield "another type", sync_request(group, 1, member, protocol_type="connect")
        yield "another protocol", sync_request(group, 1, member, protocol_name="sticky")
    assignments = [
        SyncGroupRequestAssignment(member_id="nobody", assignment=b"x"),
        SyncGroupRequestAssignment(member_id=member, assignment=b"y"),
    ]
    yield "assignments", sync_request(group, 1, member, assignments=assignments)
    yield "again", sync_request(group, 1, member, assignments=[SyncGroupRequestAssignment(member_id=member, assignment=b"z")])
    yield "without assignments", sync_request(group, 1, member)
    without = setting.name(f"unassigned-{version}")
    member = joined(setting, without)
    yield "nothing for anybody", sync_request(without, 1, member)
    left(setting, without, member)
    yield "after leaving", sync_request(without, 1, member)


def beating(setting: Setting, version: int) -> Questions:
    group, waiting = setting.name(f"beat-{version}"), setting.name(f"early-{version}")
    member = stable(setting, group)
    yield "a member", HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
    yield "no group", HeartbeatRequest(group_id="", generation_id=1, member_id=member)
    yield "no such group", HeartbeatRequest(group_id=setting.name("nobody"), generation_id=1, member_id=member)
    yield "no such member", HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
    yield "no member", HeartbeatRequest(group_id=group, generation_id=1, member_id="")
    for generation in (0, 2, -1):
        yield f"generation {generation}", HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
    if version >= 3:
        yield "no such instance", HeartbeatRequest(group_id=group, generation_id=1, member_id=member, group_instance_id="i")
        static = setting.name(f"beat-static-{version}")
        known = stable(setting, static, instance="i")
        yield "an instance", HeartbeatRequest(group_id=static, generation_id=1, member_id=known, group_instance_id="i")
        yield (
            "an instance's other member",
            HeartbeatRequest(group_id=static, generation_id=1, member_id="nobody", group_instance_id="i"),
        )
        yield "a static member without its instance", HeartbeatRequest(group_id=static, generation_id=1, member_id=known)
    yield "in a rebalance", HeartbeatRequest(group_id=waiting, generation_id=1, member_id=joined(setting, waiting))
    left(setting, group, member)
    yield "after leaving", HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
    simple = setting.name(f"beat-simple-{version}")
    committed(setting, simple)
    yield "a simple group", HeartbeatRequest(group_id=simple, generation_id=-1, member_id="")


def leaving(setting: Setting, version: int) -> Questions:
    def ask(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=group, member_id=members[0][0] if members else "")
        return LeaveGroupRequest(
            group, members=[MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members]
        )

    group = setting.name(f"leave-{version}")
    member = stable(setting, group)
    yield "no group", ask("", (member, None))
    yield "no such group", ask(setting.name("nobody"), (member, None))
    yield "no such member", ask(group, ("nobody", None))
    yield "no member", ask(group, ("", None))
    if version >= 3:
        static = setting.name(f"leave-static-{version}")
        known = stable(setting, static, instance="i")
        yield "nobody", ask(group)
        yield "no such instance", ask(group, ("", "i"))
        yield "a member as an instance", ask(group, (member, "i"))
        yield "an instance's other member", ask(static, ("nobody", "i"))
        yield "a static member without its instance", ask(static, (known, None))
        yield "an instance", ask(static, ("", "i"), ("", "i"))
        yield "two, one of them twice", ask(group, (member, None), ("nobody", None), (member, None))
    yield "a member", ask(group, (member, None))
    yield "again", ask(group, (member, None))
    simple = setting.name(f"leave-simple-{version}")
    committed(setting, simple)
    yield "a simple group", ask(simple, ("nobody", None))


def describing(setting: Setting, version: int) -> Questions:
    def ask(*groups: str) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(list(groups))

    group, early, gone, simple = (setting.name(f"desc-{stem}-{version}") for stem in ("stable", "early", "gone", "simple"))
    stable(setting, group, metadata=b"me")
    joined(setting, early)
    left(setting, gone, stable(setting, gone))
    committed(setting, simple)
    yield "stable", ask(group)
    yield "in a rebalance", ask(early)
    yield "emptied", ask(gone)
    yield "simple", ask(simple)
    yield "no such group", ask(setting.name("nobody"))
    yield "no name", ask("")
    yield "many", ask(group, simple, group)
    yield "none", ask()
    if version >= 3:
        yield "with operations", DescribeGroupsRequest(groups=[group, setting.name("nobody")], include_authorized_operations=True)
    if version >= 4:
        static = setting.name(f"desc-static-{version}")
        stable(setting, static, instance="i")
        yield "static", ask(static)
    for commit in (False, True, None):
        name = setting.name(f"desc-pending-{version}-{commit}")
        pending(setting, name, name, commit=commit)
        yield f"pending offsets, {commit}", ask(name)


def deleting(setting: Setting, version: int) -> Questions:
    def ask(*groups: str) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(list(groups))

    group, gone, simple = (setting.name(f"del-{stem}-{version}") for stem in ("stable", "gone", "simple"))
    member = stable(setting, group)
    left(setting, gone, stable(setting, gone))
    committed(setting, simple)
    yield "no name", ask("")
    yield "no such group", ask(setting.name("nobody"))
    yield "with a member", ask(group)
    yield "simple, and twice", ask(simple, simple)
    yield "again", ask(simple)
    yield "emptied", ask(gone)
    yield "none", ask()
    early = setting.name(f"del-early-{version}")
    setting.call(join_request(early), 5)
    yield "of a member that is yet to join", ask(early)
    left(setting, group, member)
    for commit in (False, True, None):
        name = setting.name(f"del-pending-{version}-{commit}")
        pending(setting, name, name, commit=commit)
        yield f"pending offsets, {commit}", ask(name)
        yield f"again, {commit}", ask(name)


def listing(setting: Setting, version: int) -> Questions:
    yield "every group", ListGroupsRequest()
    if version < 4:
        return
    for state in ("Dead", "dead", "Nonsense", ""):
        yield f"state {state!r}", ListGroupsRequest([state])
    if version >= 5:
        for kind in ("consumer", "share", "nonsense", ""):
            yield f"type {kind!r}", ListGroupsRequest(states_filter=[], types_filter=[kind])
        yield "two filters", ListGroupsRequest(states_filter=["Dead"], types_filter=["classic"])


def committing(setting: Setting, version: int) -> Questions:
    group = setting.name(f"commit-{version}")
    member = stable(setting, group)

    def ask(*identity: Any, **given: Any) -> OffsetCommitRequest:
        return commit_request(setting, version, *identity, **given)

    yield "a member", ask(group, 1, member)
    for generation in (0, 2, -1):
        yield f"generation {generation}", ask(group, generation, member)
    yield "no such member", ask(group, 1, "nobody")
    yield "nobody, into a group with members", ask(group)
    yield "no such topic", ask(group, 1, member, topic=setting.name("none"))
    yield "no such partition", ask(group, 1, member, indexes=(0, 9, -1))
    yield "a partition twice", ask(group, 1, member, indexes=(0, 0))
    yield "no partitions", ask(group, 1, member, indexes=())
    yield "too much metadata", ask(group, 1, member, metadata="x" * 5_000)
    yield "no metadata", ask(group, 1, member, metadata=None)
    for name in (setting.name(f"new-{version}"), ""):
        yield f"simple, {name and 'named'}", ask(name)
        yield f"no such member of a simple group, {name and 'named'}", ask(name, 1, "nobody")
    yield "no such group", ask(setting.name("nobody"), 1, "nobody")
    yield "no such group, only a member", ask(setting.name("nobody"), -1, "nobody")
    if version >= 7:
        yield "no such instance", ask(group, 1, member, instance="i")
        static = setting.name(f"commit-static-{version}")
        known = stable(setting, static, instance="i")
        yield "an instance", ask(static, 1, known, instance="i")
        yield "an instance's other member", ask(static, 1, "nobody", instance="i")
    if version <= 4:
        yield "kept for a while", ask(group, 1, member, retention_ms=100)
    one, two, none = (
        commit_request(setting, version, group, 1, member, topic=setting.name(n)).topics[0] for n in ("one", "two", "none")
    )
    two.partitions.append(OffsetCommitRequestPartition(partition_index=9, committed_offset=5))
    nothing = OffsetCommitRequestTopic(name=none.name, topic_id=none.topic_id, partitions=[])
    yield (
        "no partitions of no such topic",
        OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=1, member_id=member, topics=[nothing]),
    )
    yield (
        "topics that are there or not",
        OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=1, member_id=member, topics=[one, two, none]),
    )
    early = setting.name(f"commit-early-{version}")
    member = joined(setting, early)
    yield "in a rebalance", ask(early, 1, member)
    left(setting, early, member)
    yield "after leaving", ask(early, 1, member)
    yield "emptied, nobody", ask(early)
    yield "the group without a name, deleted", DeleteGroupsRequest(["", ""])


def deleted_offsets(setting: Setting, version: int) -> Questions:
    def ask(group: str, topic: str = "", *indexes: int) -> OffsetDeleteRequest:
        partitions = [OffsetDeleteRequestPartition(index) for index in indexes or (0,)]
        return OffsetDeleteRequest(
            group_id=group, topics=[OffsetDeleteRequestTopic(name=topic or setting.name("one"), partitions=partitions)]
        )

    one, two = setting.name("one"), setting.name("two")
    yield "no name", ask("")
    yield "no such group", ask(setting.name("nobody"))
    simple = setting.name("off-simple")
    committed(setting, simple)
    yield "simple, no such topic", ask(simple, setting.name("none"))
    yield "simple, no such partition", ask(simple, one, 0, 9)
    yield "simple, again", ask(simple, one, 0)
    yield "simple, no partitions", OffsetDeleteRequest(group_id=simple, topics=[])
    yield "simple, described", DescribeGroupsRequest([simple])
    topics = [ask("", name, *indexes).topics[0] for name, indexes in ((one, (0,)), (two, (1, 9)), (setting.name("none"), (0,)))]
    yield "simple, topics that are there or not", OffsetDeleteRequest(group_id=simple, topics=topics)
    for label, given in (
        ("subscribed", {"metadata": subscription(one)}),
        ("subscribed to another", {"metadata": subscription(two)}),
        ("unreadable", {"metadata": b"\1\2\3"}),
        ("not consuming", {"kind": "connect"}),
    ):
        group = setting.name("off-" + label.replace(" ", "-"))
        member = stable(setting, group, **given)
        yield label, ask(group, one, 0, 9)
        left(setting, group, member)
        yield f"{label}, emptied", ask(group, one, 0)
        yield f"{label}, emptied, described", DescribeGroupsRequest([group])
        committed(setting, group)
        yield f"{label}, emptied, committed", ask(group, one, 0)
        yield f"{label}, then described", DescribeGroupsRequest([group])
        yield f"{label}, then deleted", DeleteGroupsRequest([group])


GROUP_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "FindCoordinator": finding,
    "JoinGroup": joining,
    "SyncGroup": syncing,
    "Heartbeat": beating,
    "LeaveGroup": leaving,
    "DescribeGroups": describing,
    "DeleteGroups": deleting,
    "ListGroups": listing,
    "OffsetCommit": committing,
    "OffsetDelete": deleted_offsets,
}
