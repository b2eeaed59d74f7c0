"""Migration of groups with members from the classic to the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group import named_topics
from ottla.coordinator.group.consumer.member import ClassicMember, ConsumerMemberState
from ottla.coordinator.group.consumer_protocol import read_assignment
from ottla.protocol.codec import encode_record
from ottla.protocol.errors import Code
from ottla.protocol.messages import consumer_protocol_assignment
from ottla.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tests.coordinator.group.test_consumer_heartbeats import refused
from tests.coordinator.group_world import GROUP, topic_id
from tests.coordinator.mixed_world import (
    CONSUMER_SESSION_MS,
    COOPERATIVE,
    EAGER,
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    ConsumerClient,
    MixedGroupWorld,
    classic_group,
    commit,
    mixed,
    subscription,
)

ALL = {"t": frozenset(range(6))}


@pytest.fixture
def world() -> MixedGroupWorld:
    return MixedGroupWorld()


@pytest.mark.entry("GRP-69")
def test_consumer_heartbeat_upgrades_a_classic_group(world: MixedGroupWorld) -> None:
    classic = ClassicClient()
    classic_group(world, classic)
    generation = classic.generation
    before = len(world.log)
    answer = world.beat(ConsumerClient("new"))
    assert (answer.member_epoch, answer.assignment) == (generation + 1, {}), "the classic member still owns the partitions"
    assert world.kind == "consumer"
    assert world.log[before].value is None, "the tombstone of the classic group is written first"
    group = world.shard.consumers.groups[GROUP]
    old = group.members[classic.member_id]
    assert (old.member_epoch, old.previous_epoch, old.state) == (generation, generation, ConsumerMemberState.STABLE)
    assert old.assigned == {topic_id("t"): dict.fromkeys(range(6), generation)}
    assert old.classic == ClassicMember(SESSION_MS, ((EAGER, subscription("t")),))
    assert (old.rebalance_timeout_ms, old.client_id, old.client_host) == (REBALANCE_MS, "client", "/host")
    assert group.sessions_ms == {classic.member_id: world.now_ms + SESSION_MS, "new": world.now_ms + CONSUMER_SESSION_MS}
    world.reload()


@pytest.mark.parametrize("assignors", [(EAGER,), (COOPERATIVE,), (COOPERATIVE, EAGER)])
def test_classic_and_consumer_members_of_one_group_share_the_partitions(world: MixedGroupWorld, assignors: tuple[str, ...]) -> None:
    clients = [ClassicClient(assignors=assignors) for _ in range(3)]
    classic_group(world, *clients)
    consumer = ConsumerClient("new")
    world.settle([consumer, *clients])
    assert sorted(len(c.owned.get("t", ())) for c in (consumer, *clients)) == [1, 1, 2, 2]
    world.reload()
    world.settle([consumer, *clients])


@pytest.mark.entry("GRP-70")
def test_members_parked_in_join_group_must_rejoin_after_a_group_upgrade(world: MixedGroupWorld) -> None:
    first, second = ClassicClient(), ClassicClient()
    classic_group(world, first)
    second.is_parked = True
    assert world.join(second) is None
    world.beat(ConsumerClient("new"))
    assert second.joined is not None
    assert (second.joined.code, second.joined.member_id) == (Code.REBALANCE_IN_PROGRESS, second.member_id)


@pytest.mark.entry("GRP-70")
def test_members_parked_in_sync_group_must_rejoin_after_a_group_upgrade(world: MixedGroupWorld) -> None:
    first, second = ClassicClient(), ClassicClient()
    classic_group(world, first)
    world.join(second)
    world.join(first)
    follower = second if first.joined is not None and first.joined.leader == first.member_id else first
    assert world.sync(follower) is None
    world.beat(ConsumerClient("new"))
    assert follower.synced is not None
    assert follower.synced.code is Code.REBALANCE_IN_PROGRESS


def test_classic_group_in_its_first_rebalance_is_upgraded(world: MixedGroupWorld) -> None:
    """A group in its first rebalance has no protocol yet. Apache Kafka fails to upgrade such a group."""
    world = MixedGroupWorld(options={"initial_rebalance_delay_ms": 3_000})
    classic = ClassicClient()
    assert world.join(classic) is None
    consumer = ConsumerClient("new")
    world.beat(consumer)
    assert classic.joined is not None
    assert classic.joined.code is Code.REBALANCE_IN_PROGRESS
    classic.joined = None
    world.settle([consumer, classic])


def assigned(world: MixedGroupWorld, assignment: bytes) -> None:
    """Create a classic group with one member, whose SyncGroup request has this assignment."""
    client = ClassicClient()
    world.join(client)
    world.sync(client, assignments={client.member_id: assignment})


@pytest.mark.entry("GRP-71")
def test_unsupported_classic_groups_are_not_upgraded(world: MixedGroupWorld) -> None:
    new = ConsumerClient("new")
    message = ConsumerProtocolAssignment([TopicPartition(topic="t", partitions=[0])], user_data=b"own")
    assigned(world, encode_record(consumer_protocol_assignment, message, 0))
    with refused(Code.GROUP_ID_NOT_FOUND, "because an unsupported custom assignor is in use."):
        world.beat(new)
    world = MixedGroupWorld()
    assigned(world, b"\0")
    with refused(Code.GROUP_ID_NOT_FOUND, "because the embedded consumer protocol is malformed."):
        world.beat(new)
    world = MixedGroupWorld()
    world.join(ClassicClient(), protocol_type="connect")
    with refused(Code.GROUP_ID_NOT_FOUND, "because the group does not use the consumer embedded protocol."):
        world.beat(new)
    world = MixedGroupWorld()
    world.join(ClassicClient(), protocols=[(EAGER, b"sub")])
    with refused(Code.GROUP_ID_NOT_FOUND, "because the embedded consumer protocol is malformed."):
        world.beat(new)
    with refused(Code.GROUP_ID_NOT_FOUND, "is not a consumer group."):
        world.leave(new)
    assert world.kind == "classic"


def test_partition_with_two_owners_prevents_the_upgrade_of_a_classic_group(world: MixedGroupWorld) -> None:
    first, second = ClassicClient(), ClassicClient()
    classic_group(world, first, second)
    world.join(first)
    world.join(second)
    world.join(first)
    leader = next(c for c in (first, second) if c.joined is not None and c.joined.leader == c.member_id)
    both = encode_record(consumer_protocol_assignment, ConsumerProtocolAssignment([TopicPartition(topic="t", partitions=[0])]), 0)
    world.sync(leader, generation=world.shard.groups[GROUP].generation, assignments={c.member_id: both for c in (first, second)})
    with refused(Code.GROUP_ID_NOT_FOUND, "because a partition is assigned to several members."):
        world.beat(ConsumerClient("new"))


@pytest.mark.entry("GRP-72")
def test_classic_member_joins_a_consumer_group(world: MixedGroupWorld) -> None:
    consumer = ConsumerClient("new")
    world.beat(consumer)
    classic = ClassicClient()
    answer = world.join(classic)
    assert answer is not None
    assert (answer.code, answer.generation, answer.protocol_type, answer.protocol) == (Code.NONE, 3, "consumer", EAGER)
    assert (answer.leader, answer.members, answer.skip_assignment) == ("", [], False)
    group = world.shard.consumers.groups[GROUP]
    assert group.syncs_ms == {classic.member_id: world.now_ms + REBALANCE_MS}
    assert group.sessions_ms[classic.member_id] == world.now_ms + SESSION_MS
    synced = world.sync(classic)
    assert synced is not None
    assert (synced.code, synced.protocol_type, synced.protocol) == (Code.NONE, "consumer", EAGER)
    assert read_assignment(synced.assignment).partitions == {}
    assert group.syncs_ms == {}
    classic.is_joining = False
    world.settle([consumer, classic])
    world.reload()


def test_classic_join_of_a_consumer_group_without_a_member_id_must_be_repeated(world: MixedGroupWorld) -> None:
    world.beat(ConsumerClient("new"))
    answers: list[Any] = []
    client = ClassicClient()
    world.join(client, needs_known_id=False, member_id="", waiter=answers.append, instance_id="i")
    assert answers[0].code is Code.NONE, "a static member needs no member id"
    before = len(world.log)
    client = ClassicClient()
    world.join(client, waiter=answers.append)
    assert (answers[1].code, bool(answers[1].member_id), len(world.log)) == (Code.MEMBER_ID_REQUIRED, True, before)


def test_invalid_requests_of_a_classic_member_in_a_consumer_group_are_refused(world: MixedGroupWorld) -> None:
    classic, _ = mixed(world)
    unfit: list[list[tuple[str, bytes]]] = [[], [("other", b"")], [(EAGER, b"\0")]]
    for given in ({"protocol_type": "connect"}, *({"protocols": protocols} for protocols in unfit)):
        with refused(Code.INCONSISTENT_GROUP_PROTOCOL):
            world.join(ClassicClient(), needs_known_id=False, **given)
    with refused(Code.UNKNOWN_MEMBER_ID):
        world.join(ClassicClient(instance_id="i"), member_id="x")
    generation, member_id = classic.generation, classic.member_id
    for given, code in (
        ({"generation": generation + 1}, Code.ILLEGAL_GENERATION),
        ({"member_id": "x"}, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, Code.UNKNOWN_MEMBER_ID),
        ({"instance_id": "i"}, Code.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol": "other"}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ):
        with refused(code):
            world.sync(classic, **given)
    for args, code in (
        ((generation + 1, member_id, None), Code.ILLEGAL_GENERATION),
        ((generation, "x", None), Code.UNKNOWN_MEMBER_ID),
        ((generation, "new", None), Code.UNKNOWN_MEMBER_ID),
        ((generation, member_id, "i"), Code.UNKNOWN_MEMBER_ID),
    ):
        with refused(code):
            world.shard.classic_heartbeat(GROUP, *args, world.now_ms)


def test_full_consumer_group_refuses_classic_members(world: MixedGroupWorld) -> None:
    classic, _ = mixed(world)
    world.most_consumers = 2
    with refused(Code.GROUP_MAX_SIZE_REACHED):
        world.join(ClassicClient())
    assert world.join(classic) is not None
    world = MixedGroupWorld(options={"max_size": 1})
    world.beat(ConsumerClient("a"))
    assert world.join(ClassicClient()) is not None, "the size limit of classic groups is separate"


def test_classic_group_above_the_maximum_size_is_not_upgraded(world: MixedGroupWorld) -> None:
    classic_group(world, ClassicClient(), ClassicClient())
    world.most_consumers = 1
    with refused(Code.GROUP_ID_NOT_FOUND, "because the group size exceeds the consumer group maximum size."):
        world.beat(ConsumerClient("new"))
    world.most_consumers = 2
    with refused(Code.GROUP_MAX_SIZE_REACHED):
        world.beat(ConsumerClient("new"))
    assert world.kind == "classic"


def test_topic_limits_apply_to_classic_members_of_a_consumer_group(world: MixedGroupWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_topics, "MAX_MEMBER_TOPICS", 3)
    monkeypatch.setattr(named_topics, "MAX_GROUP_TOPICS", 4)
    mixed(world)
    with refused(Code.INVALID_REQUEST):
        world.join(ClassicClient(topics=("a", "b", "c", "d")), needs_known_id=False)
    assert world.join(ClassicClient(topics=("a", "b", "c")), needs_known_id=False) is not None
    with refused(Code.INVALID_REQUEST):
        world.join(ClassicClient(topics=("e",)), needs_known_id=False)


@pytest.mark.parametrize("name", ["MAX_MEMBER_TOPICS", "MAX_GROUP_TOPICS"])
def test_classic_group_with_too_many_topics_is_not_upgraded(
    world: MixedGroupWorld, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    classic_group(world, ClassicClient(topics=("a", "b")), ClassicClient(topics=("c",)))
    monkeypatch.setattr(named_topics, name, 1)
    with refused(Code.GROUP_ID_NOT_FOUND, "topics by name, and may subscribe to 1 at most."):
        world.beat(ConsumerClient("new"))
    assert world.kind == "classic"


def test_classic_member_gets_its_assignment_in_the_version_of_its_subscription(world: MixedGroupWorld) -> None:
    consumer = ConsumerClient("new")
    world.beat(consumer)
    for version, expected in ((0, 0), (3, 3), (9, 3)):
        client = ClassicClient()
        metadata = version.to_bytes(2, "big") + subscription("t", version=min(version, 3))[2:]
        world.join(client, protocols=[(EAGER, metadata)], rebalance_timeout_ms=1)
        synced = world.sync(client)
        assert synced is not None
        assert int.from_bytes(synced.assignment[:2], "big") == expected
        world.leave_classic(client)


@pytest.mark.entry("GRP-73")
def test_classic_member_with_an_outdated_assignment_must_rejoin_before_it_syncs(world: MixedGroupWorld) -> None:
    classic, _ = mixed(world)
    world.beat(ConsumerClient("another"))
    with refused(Code.REBALANCE_IN_PROGRESS):
        world.sync(classic)
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    joins = dict(world.shard.consumers.groups[GROUP].joins_ms)
    assert joins == {classic.member_id: world.now_ms + REBALANCE_MS}
    world.now_ms += 1_000
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    assert world.shard.consumers.groups[GROUP].joins_ms == joins, "a repeated heartbeat does not extend the deadline"
    world.join(classic)
    assert world.shard.consumers.groups[GROUP].joins_ms == {}


@pytest.mark.entry("GRP-73")
def test_classic_member_rebalances_only_after_other_members_revoked_its_partitions(world: MixedGroupWorld) -> None:
    consumer = ConsumerClient("new")
    world.beat(consumer)
    classic = ClassicClient()
    world.join(classic)
    world.sync(classic)
    assert world.classic_beat(classic) is Code.NONE, "the consumer still owns the partitions"
    world.beat(consumer)
    assert world.classic_beat(classic) is Code.NONE
    world.beat(consumer)
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS


@pytest.mark.entry("GRP-75")
@pytest.mark.parametrize("why", ["session", "join", "sync"])
def test_classic_member_of_a_consumer_group_is_removed_when_a_timeout_expires(world: MixedGroupWorld, why: str) -> None:
    classic, consumer = mixed(world)
    if why == "sync":
        world.join(classic)
    if why == "join":
        world.beat(ConsumerClient("another"))
    left_ms = SESSION_MS if why == "session" else REBALANCE_MS
    for _ in range(left_ms // 1_000):
        assert classic.member_id in world.shard.consumers.groups[GROUP].members
        world.beat(consumer)
        if why != "session":
            world.classic_beat(classic)
        world.tick(1_000)
    assert classic.member_id not in world.shard.consumers.groups[GROUP].members
    assert world.classic_beat(classic) is Code.UNKNOWN_MEMBER_ID


def test_reloaded_classic_member_of_a_consumer_group_has_the_group_session_timeout(world: MixedGroupWorld) -> None:
    """Until its next heartbeat, the member has the group's session timeout instead of its own, as in Apache Kafka."""
    classic, _ = mixed(world)
    world.reload()
    group = world.shard.consumers.groups[GROUP]
    assert group.sessions_ms[classic.member_id] == world.now_ms + CONSUMER_SESSION_MS
    world.classic_beat(classic)
    assert group.sessions_ms[classic.member_id] == world.now_ms + SESSION_MS


@pytest.mark.entry("GRP-76")
@pytest.mark.parametrize("newest", [False, True])
def test_classic_members_of_a_consumer_group_commit_by_generation_in_any_version(world: MixedGroupWorld, newest: bool) -> None:
    classic, _ = mixed(world)
    member_id, generation = classic.member_id, classic.generation
    assert commit(world, generation, member_id, newest=newest) is Code.NONE
    with refused(
        Code.ILLEGAL_GENERATION, f"Received generation id {generation + 1} is newer than current member epoch {generation}."
    ):
        commit(world, generation + 1, member_id, newest=newest)
    with refused(Code.ILLEGAL_GENERATION):
        commit(world, generation - 2, member_id, newest=newest, transactional=True)
    with refused(Code.ILLEGAL_GENERATION, "The received generation id 1 does not match the expected member epoch"):
        world.shard.check_fetch(GROUP, member_id, 1)
    with refused(Code.UNSUPPORTED_VERSION if not newest else Code.STALE_MEMBER_EPOCH):
        commit(world, 99, "new", newest=newest)


@pytest.mark.entry("GRP-74")
def test_cooperative_classic_member_rejoins_until_it_has_revoked_its_partitions(world: MixedGroupWorld) -> None:
    classic = ClassicClient(assignors=(COOPERATIVE,))
    classic_group(world, classic)
    generation = classic.generation
    consumer = ConsumerClient("new")
    world.beat(consumer)
    for _ in range(2):
        answer = world.join(classic)
        assert answer is not None
        assert answer.generation == generation, "the member still owns partitions that it must revoke"
    synced = world.sync(classic)
    assert synced is not None
    assert world.classic_beat(classic) is Code.REBALANCE_IN_PROGRESS
    world.take_assignment(classic, synced)
    assert (classic.is_joining, len(classic.owned["t"])) == (True, 3)
    answer = world.join(classic)
    assert answer is not None
    assert answer.generation == generation + 1
    world.beat(consumer)
    assert len(consumer.owned["t"]) == 3
