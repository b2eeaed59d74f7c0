"""Scenario commands for classic groups and for committed offsets."""

from __future__ import annotations

from typing import Any

from ottla.protocol.codec import encode_record
from ottla.protocol.errors import Code
from ottla.protocol.messages import consumer_protocol_subscription
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.primitives import NO_UUID
from tests.scenarios.json_messages import raw
from tests.scenarios.verbs import identity, transactional_id, verb
from tests.scenarios.world import Actor, Ask, Words, World, name_of
from tests.support import oracle


@verb
def join(world: World, words: Words) -> str:
    """Join a classic group as its only member, and sync.

    Command: ``M = join g [instance=i] [session=30000] [sync=5] ...``. The protocol type is ``type``, by default consumer. The
    ``metadata`` is empty by default; ``reads=t,u`` subscribes to topics. The member assigns itself ``assigned``, by default
    nothing. With ``nosync`` the member joins without a sync.
    """
    group = world.real(words.plain[0])
    coordinated(world, group)
    instance = words.options.get("instance")
    known = world.actors.get(words.name)
    member = known.member if known is not None else ""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=words.number("session", 30_000),
        rebalance_timeout_ms=30_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type=words.options.get("type", "consumer"),
        protocols=[JoinGroupRequestProtocol(name="range", metadata=_metadata(world, words))],
    )
    answer = oracle.ready(world, request, 7, lambda a: [a.error_code])
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        request.member_id = answer.member_id
        answer = world.call(request, 7)
    if answer.error_code:
        return name_of(answer.error_code)
    actor = world.actors.setdefault(words.name, Actor(words.name, None, -1, -1))
    actor.member, actor.generation = answer.member_id, answer.generation_id
    if words.has("nosync"):
        return f"NONE generation {answer.generation_id}"
    assigned = [SyncGroupRequestAssignment(member_id=actor.member, assignment=raw(words.options.get("assigned", "")))]
    synced = world.call(
        SyncGroupRequest(
            group_id=group,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=instance,
            protocol_type=request.protocol_type,
            protocol_name=request.protocols[0].name,
            assignments=assigned if "assigned" in words.options else [],
        ),
        words.number("sync", 5),
    )
    return f"{name_of(synced.error_code)} generation {answer.generation_id}"


def _metadata(world: World, words: Words) -> bytes:
    if "reads" not in words.options:
        return raw(words.options.get("metadata", ""))
    subscription = ConsumerProtocolSubscription(topics=[world.real(topic) for topic in words.options["reads"].split(",")])
    return encode_record(consumer_protocol_subscription, subscription, 0)


@verb
def leave(world: World, words: Words) -> Ask:
    """Send LeaveGroup for a member. Command: ``leave M g``."""
    actor = world.actors[words.plain[0]]
    request = LeaveGroupRequest(world.real(words.plain[1]), members=[MemberIdentity(actor.member)])
    return Ask(request, 4, lambda a: name_of(a.error_code or a.members[0].error_code))


def coordinated(world: World, group: str) -> None:
    """Wait until the group's coordinator is known. The first FindCoordinator request creates the offsets topic."""
    oracle.coordinator_known(world, group, oracle.GROUP)


def _membership(world: World, words: Words) -> tuple[int, str, str | None]:
    """Return generation, member id and instance id, as modified by ``member=M gen=g+1 instance=i``."""
    generation, member = -1, ""
    given = words.options.get("member")
    if given in world.actors:
        generation, member = world.actors[given].generation, world.actors[given].member
    elif given is not None:
        member = "" if given == "none" else given
    bent = words.options.get("gen")
    if bent is not None:
        generation = generation + int(bent[1:] or 0) if bent.startswith("g") else int(bent)
    return generation, member, words.options.get("instance")


def _offsets(world: World, words: Words) -> list[tuple[str, int, int]]:
    own = ("v", "member", "gen", "instance", "id", "pid", "epoch")
    return [(*world.partition(k), int(v)) for k, v in words.options.items() if k not in own]


@verb
def offsets(world: World, words: Words) -> Ask:
    """Commit offsets by TxnOffsetCommit. Command: ``offsets A g t=5 [u/1=7] [v=5] [member=M] [gen=g-1] [instance=i]``."""
    actor = world.actors[words.plain[0]]
    pid, epoch = identity(world, words, actor)
    generation, member, instance = _membership(world, words)
    wanted = _offsets(world, words)
    version = words.version(5) or 0
    ids = {t: world.topic_id(t) if version >= 6 else NO_UUID for t, _, _ in wanted}
    topics = [
        TxnOffsetCommitRequestTopic(
            name=t, topic_id=ids[t], partitions=[TxnOffsetCommitRequestPartition(partition_index=i, committed_offset=at)]
        )
        for t, i, at in wanted
    ]
    group = "" if words.plain[1] == "empty" else world.real(words.plain[1])
    coordinated(world, group or "any")
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id(world, words, actor) or "",
        group_id=group,
        producer_id=pid,
        producer_epoch=epoch,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=topics,
    )

    def show(answer: Any) -> str:
        codes = {(t.name or t.topic_id, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
        names = [name_of(codes[ids[t] if version >= 6 else t, i]) for t, i, _ in wanted]
        return names[0] if len(set(names)) == 1 else " | ".join(names)

    return Ask(request, version, show)


@verb
def commit_offsets(world: World, words: Words) -> Ask:
    """Commit offsets by OffsetCommit, without a transaction. Command: ``commit_offsets g t=5 [v=9] [member=M]``."""
    coordinated(world, world.real(words.plain[0]))
    generation, member, instance = _membership(world, words)
    wanted = _offsets(world, words)
    topics = [
        OffsetCommitRequestTopic(t, partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=at)])
        for t, i, at in wanted
    ]
    request = OffsetCommitRequest(
        group_id=world.real(words.plain[0]),
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        topics=topics,
    )

    def show(answer: Any) -> str:
        return " | ".join(name_of(p.error_code) for t in answer.topics for p in t.partitions)

    return Ask(request, words.version(8), show)


@verb
def committed(world: World, words: Words) -> Ask:
    """Show committed offsets by OffsetFetch. Command: ``committed g t [u] [stable] [v=8] [member=M] [gen=g-1]``."""
    names = [p for p in words.plain[1:] if p not in ("stable", "once")]
    wanted = [world.partition(p) for p in names]
    version = words.version(8) or 0
    asked = [OffsetFetchRequestTopics(t, partition_indexes=[i]) for t, i in wanted] or None
    group = world.real(words.plain[0])
    generation, member, _ = _membership(world, words)
    if version >= 8:
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group, member_id=member or None, member_epoch=generation, topics=asked)],
            require_stable=words.has("stable"),
        )
    else:
        from ottla.protocol.messages.offset_fetch import OffsetFetchRequestTopic

        old = [OffsetFetchRequestTopic(name=t, partition_indexes=[i]) for t, i in wanted]
        request = OffsetFetchRequest(group_id=group, topics=old, require_stable=words.has("stable"))

    def show(answer: Any) -> str:
        whole = answer.groups[0] if version >= 8 else answer
        if whole.error_code:
            return name_of(whole.error_code)
        partitions = {(t.name, p.partition_index): p for t in whole.topics for p in t.partitions}
        parts = []
        for where in wanted or sorted(partitions):
            p = partitions[where]
            named = "" if wanted else f"{world.shown(where[0])}/{where[1]} "
            parts.append(named + (name_of(p.error_code) if p.error_code else str(p.committed_offset)))
        return " | ".join(parts) or "nothing"

    return Ask(request, version, show)


@verb
def delete_offsets(world: World, words: Words) -> Ask:
    """Send OffsetDelete for one partition. Command: ``delete_offsets g t``."""
    topic, index = world.partition(words.plain[1])
    request = OffsetDeleteRequest(
        group_id=world.real(words.plain[0]),
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(index)])],
    )
    return Ask(request, 0, lambda a: name_of(a.error_code or a.topics[0].partitions[0].error_code))


@verb
def delete_group(world: World, words: Words) -> Ask:
    request = DeleteGroupsRequest([world.real(words.plain[0])])
    return Ask(request, None, lambda a: name_of(a.results[0].error_code))


@verb
def listed(world: World, words: Words) -> Ask:
    """Show a group's type and state in ListGroups, or ``not listed``.

    Command: ``listed g [types=streams,consumer] [states=Stable]``.
    """
    group = world.real(words.plain[0])
    coordinated(world, group)
    types, states = ([one for one in words.options.get(option, "").split(",") if one] for option in ("types", "states"))
    request = ListGroupsRequest(states_filter=states, types_filter=types)

    def show(answer: Any) -> str:
        if answer.error_code:
            return name_of(answer.error_code)
        its = [one for one in answer.groups if one.group_id == group]
        return f"{its[0].group_type} {its[0].group_state} of {its[0].protocol_type or 'no protocol'}" if its else "not listed"

    return Ask(request, 5, show)


@verb
def classic(world: World, words: Words) -> Ask:
    """Show the state of a group by DescribeGroups, which is for groups of the classic protocol. Command: ``classic g``."""
    group = world.real(words.plain[0])
    coordinated(world, group)

    def show(answer: Any) -> str:
        described = answer.groups[0]
        return name_of(described.error_code) if described.error_code else f"NONE {described.group_state}"

    return Ask(DescribeGroupsRequest(groups=[group]), 6, show)


@verb
def classic_beat(world: World, words: Words) -> Ask:
    """Send a Heartbeat of the classic protocol. Command: ``classic_beat M g``."""
    actor = world.actors[words.plain[0]]
    request = HeartbeatRequest(group_id=world.real(words.plain[1]), generation_id=actor.generation, member_id=actor.member)
    return Ask(request, 4, lambda a: name_of(a.error_code))
