"""Groups that change over between the classic and the consumer protocol, as scripts that two brokers are taken through.

What is asked next depends on member ids and generations that each broker has given out, so a script is told each answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from ottla.coordinator.group.consumer_protocol import written_assignment
from ottla.protocol.codec import encode_record
from ottla.protocol.messages import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.scenarios.setting import Setting

Script = Generator[tuple[str, Any, int], Any, None]
"""Gives a label, a request and its version; is told the answer."""

JOIN, SYNC, BEAT, LEAVE = 9, 5, 4, 5
EAGER, COOPERATIVE = "range", "cooperative-sticky"


class Asking:
    """The requests of one group on the topic ``two``, which has two partitions."""

    def __init__(self, setting: Setting, stem: str) -> None:
        self.group, self.topic = setting.name(f"migrate-{stem}"), setting.name("two")
        self.topic_id = setting.id("two")

    def subscription(self, owned: tuple[int, ...] = (), topics: tuple[str, ...] = ()) -> bytes:
        partitions = [TopicPartition(topic=self.topic, partitions=list(owned))] if owned else []
        message = ConsumerProtocolSubscription(topics=[self.topic, *topics], owned_partitions=partitions)
        return encode_record(consumer_protocol_subscription, message, 3)

    def assignment(self, *partitions: int) -> bytes:
        return written_assignment({self.topic: partitions}, b"\0\3")

    def join(self, member: str = "", protocol: str = EAGER, owned: tuple[int, ...] = (), **given: Any) -> JoinGroupRequest:
        fields: dict[str, Any] = {
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=protocol, metadata=self.subscription(owned))],
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 60_000,
            **given,
        }
        return JoinGroupRequest(group_id=self.group, member_id=member, **fields)

    def sync(self, member: str, generation: int, *assigned: tuple[str, bytes], **given: Any) -> SyncGroupRequest:
        fields: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": EAGER, **given}
        assignments = [SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in assigned]
        return SyncGroupRequest(group_id=self.group, member_id=member, generation_id=generation, assignments=assignments, **fields)

    def classic_beat(self, member: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group, generation_id=generation, member_id=member, group_instance_id=instance)

    def beat(self, member: str, epoch: int, owned: tuple[int, ...] | None = None, **given: Any) -> ConsumerGroupHeartbeatRequest:
        if epoch == 0:
            given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [self.topic], **given}
            owned = ()
        partitions = None if owned is None else [TopicPartitions(topic_id=self.topic_id, partitions=list(owned))] if owned else []
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=member, member_epoch=epoch, topic_partitions=partitions, **given
        )

    def leave(self, member: str, instance: str | None = None) -> LeaveGroupRequest:
        return LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=member, group_instance_id=instance)])

    def commit(self, member: str, generation: int) -> OffsetCommitRequest:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
        topics = [OffsetCommitRequestTopic(name=self.topic, partitions=partitions)]
        return OffsetCommitRequest(group_id=self.group, generation_id_or_member_epoch=generation, member_id=member, topics=topics)

    def committed(self, member: str | None, epoch: int) -> OffsetFetchRequest:
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=self.group, member_id=member, member_epoch=epoch, topics=topics)]
        return OffsetFetchRequest(groups=groups)

    def described(self, when: str) -> Iterator[tuple[str, Any, int]]:
        yield f"{when}, described", ConsumerGroupDescribeRequest(group_ids=[self.group]), 1
        yield f"{when}, described as a classic group", DescribeGroupsRequest(groups=[self.group]), 6

    def classic(self, protocol: str = EAGER) -> Generator[tuple[str, Any, int], Any, str]:
        """A classic group of one member, which has both partitions at generation 1."""
        answer = yield "the first", self.join(protocol=protocol), JOIN
        member: str = answer.member_id
        yield "the first again", self.join(member, protocol), JOIN
        assigned = (member, self.assignment(0, 1))
        yield "the first syncs", self.sync(member, 1, assigned, protocol_name=protocol), SYNC
        yield "the first commits", self.commit(member, 1), 8
        return member


def eager(setting: Setting) -> Script:
    """A consumer joins a classic group, and leaves it again."""
    ask = Asking(setting, "eager")
    member = yield from ask.classic()
    yield "somebody goes on in a classic group", ask.beat("new", 1), 1
    yield "somebody leaves it", ask.beat("new", -1), 1
    yield "a consumer joins", ask.beat("new", 0), 1
    yield from ask.described("upgraded")
    yield "the first goes on", ask.classic_beat(member, 1), BEAT
    yield "with a generation that there is not", ask.classic_beat(member, 7), BEAT
    yield "a stranger", ask.classic_beat("nobody", 1), BEAT
    yield "a consumer, as a classic member", ask.classic_beat("new", 2), BEAT
    yield "with an instance that there is not", ask.classic_beat(member, 1, "i"), BEAT
    yield "it syncs without joining", ask.sync(member, 1), SYNC
    yield "it commits meanwhile", ask.commit(member, 1), 8
    yield "it fetches meanwhile", ask.committed(member, 1), 9
    yield "it fetches at another generation", ask.committed(member, 2), 9
    yield "it commits at a newer generation", ask.commit(member, 2), 8
    yield "the consumer commits in an old version", ask.commit("new", 2), 8
    yield "it joins again", ask.join(member), JOIN
    yield "it goes on before it syncs", ask.classic_beat(member, 2), BEAT
    yield "it syncs with another protocol", ask.sync(member, 2, protocol_name="other"), SYNC
    yield "it syncs with another type", ask.sync(member, 2, protocol_type="connect"), SYNC
    yield "it syncs", ask.sync(member, 2), SYNC
    yield "it goes on", ask.classic_beat(member, 2), BEAT
    yield "it commits at the generation of before", ask.commit(member, 1), 8
    yield "the consumer goes on", ask.beat("new", 2, ()), 1
    yield from ask.described("at rest")
    yield "one joins with another protocol", ask.join(protocol="other"), JOIN
    yield "one joins with another type", ask.join(protocol_type="connect"), JOIN
    yield "one joins without protocols", ask.join(protocols=[]), JOIN
    yield (
        "one joins with a strange subscription",
        ask.join("m", protocols=[JoinGroupRequestProtocol(name=EAGER, metadata=b"x")]),
        JOIN,
    )
    yield "one joins with a short session", ask.join(session_timeout_ms=1), JOIN
    answer = yield "one without an id", ask.join(), JOIN
    second = answer.member_id
    yield "it joins", ask.join(second), JOIN
    yield "it syncs too", ask.sync(second, 3), SYNC
    yield "the first hears of it", ask.classic_beat(member, 2), BEAT
    yield "the first joins once more", ask.join(member), JOIN
    yield "the first syncs once more", ask.sync(member, 3), SYNC
    yield "the second goes on", ask.classic_beat(second, 3), BEAT
    yield "the consumer hears of it", ask.beat("new", 2, (0,)), 1
    yield from ask.described("with three")
    yield "the second leaves", ask.leave(second), LEAVE
    yield "the second leaves again", ask.leave(second), LEAVE
    yield "the consumer hears of that", ask.beat("new", 3, ()), 1
    yield "the consumer leaves", ask.beat("new", -1), 1
    yield from ask.described("downgraded")
    yield "the consumer is no member", ask.beat("new", 3), 1
    for generation in range(1, 6):
        yield f"the first goes on at {generation}", ask.classic_beat(member, generation), BEAT
    yield "who commits at no generation", ask.commit("", -1), 8
    answer = yield "the first joins the classic group", ask.join(member), JOIN
    yield "and syncs", ask.sync(member, answer.generation_id, (member, ask.assignment(0, 1))), SYNC
    yield from ask.described("classic again")
    yield "what is committed", ask.committed(None, -1), 9


def cooperative(setting: Setting) -> Script:
    """A member that names what it owns gives up first, and joins once more to say so."""
    ask = Asking(setting, "cooperative")

    def join(owned: tuple[int, ...]) -> JoinGroupRequest:
        return ask.join(member, COOPERATIVE, owned)

    member = yield from ask.classic(COOPERATIVE)
    yield "a consumer joins", ask.beat("new", 0), 1
    yield "the first hears of it", ask.classic_beat(member, 1), BEAT
    yield "it joins with what it owns", join((0, 1)), JOIN
    yield "it syncs", ask.sync(member, 1, protocol_name=COOPERATIVE), SYNC
    yield "it goes on", ask.classic_beat(member, 1), BEAT
    yield from ask.described("before it has given up")
    yield "it joins with all once more", join((0, 1)), JOIN
    yield "the consumer waits", ask.beat("new", 2, ()), 1
    for owned in ((0,), (1,)):
        yield f"it joins with {owned}", join(owned), JOIN
    yield from ask.described("after it has given up")
    yield "it syncs again", ask.sync(member, 2, protocol_name=COOPERATIVE), SYNC
    yield "it goes on again", ask.classic_beat(member, 2), BEAT
    yield "the consumer has its part", ask.beat("new", 2, ()), 1
    yield from ask.described("at rest")


def waiting(setting: Setting) -> Script:
    """A classic member comes second: it waits until the consumer has given up what it is to have."""
    ask = Asking(setting, "waiting")
    yield "a consumer", ask.beat("first", 0), 1
    answer = yield "a classic member", ask.join(), JOIN
    member = answer.member_id
    yield "it joins", ask.join(member), JOIN
    yield "it syncs", ask.sync(member, 3), SYNC
    yield "it goes on", ask.classic_beat(member, 3), BEAT
    yield "the consumer is to give up", ask.beat("first", 2, (0, 1)), 1
    yield "it goes on still", ask.classic_beat(member, 3), BEAT
    for owned in ((0,), (1,)):
        yield f"the consumer has {owned}", ask.beat("first", 2, owned), 1
        yield f"it goes on with {owned}", ask.classic_beat(member, 3), BEAT
    yield "it joins for the rest", ask.join(member), JOIN
    yield "it syncs for the rest", ask.sync(member, 3), SYNC
    yield from ask.described("at rest")
    yield "it becomes a consumer under its id", ask.beat(member, 0), 1
    yield from ask.described("without classic members")
    yield "a consumer becomes classic under its id", ask.join("first"), JOIN
    yield from ask.described("with another classic member")
    yield "both leave", LeaveGroupRequest(group_id=ask.group, members=[MemberIdentity(member), MemberIdentity("first")]), LEAVE
    yield from ask.described("emptied")


def static(setting: Setting) -> Script:
    """Static members go over in their places, and come back."""
    ask = Asking(setting, "static")
    answer = yield "the first", ask.join(group_instance_id="i"), JOIN
    member = answer.member_id
    yield "it syncs", ask.sync(member, 1, (member, ask.assignment(0, 1)), group_instance_id="i"), SYNC
    yield "a consumer in its place", ask.beat("c", 0, instance_id="i"), 1
    yield from ask.described("gone over")
    yield "the one of before", ask.classic_beat(member, 1, "i"), BEAT
    answer = yield "another classic member", ask.join(group_instance_id="j"), JOIN
    other = answer.member_id
    yield "it syncs too", ask.sync(other, answer.generation_id, group_instance_id="j"), SYNC
    answer = yield "another in its place", ask.join(group_instance_id="j"), JOIN
    yield "who was replaced syncs", ask.sync(other, answer.generation_id, group_instance_id="j"), SYNC
    yield "who was replaced joins", ask.join(other, group_instance_id="j"), JOIN
    yield "a stranger with an instance", ask.join("stranger", group_instance_id="k"), JOIN
    other = answer.member_id
    yield "the other syncs", ask.sync(other, answer.generation_id, group_instance_id="j"), SYNC
    yield "the first is to give up", ask.beat("c", 2, (0, 1), instance_id="i"), 1
    for owned in ((0,), (1,)):
        yield f"it has {owned}", ask.beat("c", 2, owned, instance_id="i"), 1
    yield "the other hears of it", ask.classic_beat(other, answer.generation_id, "j"), BEAT
    yield "the other joins again", ask.join(other, group_instance_id="j"), JOIN
    yield "the other syncs again", ask.sync(other, answer.generation_id, group_instance_id="j"), SYNC
    yield from ask.described("mixed")
    answer = yield "a classic one in the consumer's place", ask.join(group_instance_id="i"), JOIN
    back = answer.member_id
    yield from ask.described("back")
    yield "it syncs in the classic group", ask.sync(back, answer.generation_id, group_instance_id="i"), SYNC
    yield "the other goes on", ask.classic_beat(other, answer.generation_id, "j"), BEAT
    yield "it goes on", ask.classic_beat(back, answer.generation_id, "i"), BEAT
    yield "over once more", ask.beat("d", 0, instance_id="i"), 1
    yield from ask.described("over once more")
    metadata = ask.subscription(topics=(setting.name("one"),))
    protocols = [JoinGroupRequestProtocol(name=EAGER, metadata=metadata)]
    answer = yield "back with another subscription", ask.join(group_instance_id="i", protocols=protocols), JOIN
    yield from ask.described("back with another subscription")
    yield "its sync", ask.sync(answer.member_id, answer.generation_id, group_instance_id="i"), SYNC


def refused(setting: Setting) -> Script:
    """Classic groups that are not upgraded."""
    ask = Asking(setting, "connect")
    yield "of another type", ask.join(group_instance_id="i", protocol_type="connect"), JOIN
    yield "a consumer joins that", ask.beat("new", 0), 1
    data = encode_record(consumer_protocol_assignment, ConsumerProtocolAssignment(user_data=b"own"), 3)
    for name, assignment in (("malformed", b"\0"), ("custom", data)):
        ask = Asking(setting, name)
        answer = yield name, ask.join(group_instance_id="i"), JOIN
        member = answer.member_id
        yield f"{name}, synced", ask.sync(member, 1, (member, assignment), group_instance_id="i"), SYNC
        yield f"{name}, upgraded", ask.beat("new", 0), 1
        yield f"{name}, going on", ask.classic_beat(member, 1, "i"), BEAT
    ask = Asking(setting, "unreadable")
    protocols = [JoinGroupRequestProtocol(name=EAGER, metadata=b"x")]
    answer = yield "unreadable", ask.join(group_instance_id="i", protocols=protocols), JOIN
    yield "unreadable, synced", ask.sync(answer.member_id, 1, group_instance_id="i"), SYNC
    yield "unreadable, upgraded", ask.beat("new", 0), 1


SCRIPTS: dict[str, Callable[[Setting], Script]] = {
    "eager": eager,
    "cooperative": cooperative,
    "waiting": waiting,
    "static": static,
    "refused": refused,
}
